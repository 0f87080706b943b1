// promptfoo_asserts.mjs: the checks and the rubric of a promptfoo test
import { render } from "./prompt.mjs";

const CHECKS = ["equals", "contains", "icontains", "contains-any", "contains-all", "icontains-any", "icontains-all",
	"regex", "starts-with", "levenshtein", "is-json", "contains-json", "latency", "cost", "finish-reason", "javascript",
	"similar"];
const ASSERT = ["type", "value", "weight", "threshold", "metric", "provider", "rubricPrompt", "transform", "config"];
const SET = ["type", "assert", "weight", "threshold", "metric"];

// How a judge that gives 1 to 5 decides what promptfoo asks judges of other kinds.
const RUBRICS = {
	"llm-rubric": (value) => value,
	"model-graded-closedqa": (value) => `Give 5 if the response meets this criterion, else 1.\n\nCriterion: ${value}`,
	factuality: (value) => `Compare the facts of the response with those of an expert's answer. Ignore differences of style, \
grammar and punctuation. Give 1 if the two disagree about a fact. Give 5 if the response has the same facts, fewer or more of them, \
or if the differences do not matter for the facts.\n\nExpert's answer: ${value}`,
};
RUBRICS["model-graded-factuality"] = RUBRICS.factuality;

// What an assertion's value says once files are read and variables replaced.
function valueOf(value, vars, files) {
	if (Array.isArray(value))
		return value.map((one) => valueOf(one, vars, files));
	if (typeof value !== "string")
		return value;
	return value.startsWith("file://") ? files.value(value) : rendered(value, vars);
}

// A text without marks of a template stays as it is: scripts and patterns have braces.
const rendered = (text, vars) => /\{[{%#]/.test(text) ? render(text, vars) : text;

export const scriptOf = (value, files) => files.isScript(value) ? files.script(value) : value;

// Returns the checks and the rubrics of a test; warns of what is left out.
export function readAsserts(name, test, vars, files, warn) {
	const transforms = test.transforms.map((script) => scriptOf(script, files));
	const checks = [], rubrics = [];
	const add = (assert, checks) => {
		if (typeof assert?.type !== "string")
			throw new Error(`${name}: an assertion has no type`);
		if (assert.type === "assert-set")
			return addSet(assert, checks);
		const where = `${name}, ${assert.type}`;
		for (const key of Object.keys(assert))
			if (!ASSERT.includes(key))
				warn(`${where}: "${key}" is left out`);
		const { type, weight, threshold } = assert;
		const base = type.replace(/^not-/, "");
		if (Object.hasOwn(RUBRICS, type))
			return addRubric(where, assert);
		if (!CHECKS.includes(base))
			throw new Error(`${name}: assertion "${type}" is not supported`);
		const all = [...transforms, ...assert.transform ? [scriptOf(assert.transform, files)] : []];
		const isScript = base === "javascript";
		if (base === "similar" && all.length)
			throw new Error(`${where}: a transform is not supported, as the answer is embedded as it came`);
		const value = isScript ? files.isScript(assert.value ?? "") ? scriptOf(assert.value, files)
			: rendered(String(assert.value ?? ""), vars).trimEnd() : valueOf(assert.value, vars, files);
		const context = isScript || all.length ? { vars, ...assert.config ? { config: assert.config } : {} } : null;
		checks.push({ type, ...value === undefined ? {} : { value }, ...weight === undefined ? {} : { weight },
			...threshold === undefined ? {} : { threshold }, ...all.length ? { transform: all } : {},
			...context ? { context } : {} });
	};
	// A set without a threshold of its own asks that each of its assertions passes.
	const addSet = (set, checks) => {
		for (const key of Object.keys(set))
			if (!SET.includes(key))
				warn(`${name}, assert-set: "${key}" is left out`);
		const { weight, threshold } = set;
		const list = [set.assert ?? []].flat();
		const judged = list.filter(({ type }) => Object.hasOwn(RUBRICS, type));
		if (judged.length && threshold)
			throw new Error(`${name}: an assert-set with a threshold and a judge is not supported`);
		judged.forEach((assert) => add(assert, checks));
		if (list.some(({ type }) => /^(not-)?similar$/.test(type)))
			throw new Error(`${name}: an assert-set with "similar" is not supported`);
		const within = [];
		list.filter((assert) => !judged.includes(assert)).forEach((assert) => add(assert, within));
		if (within.length)
			checks.push({ type: "assert-set", assert: within, ...weight === undefined ? {} : { weight },
				...threshold ? { threshold } : {} });
	};
	const addRubric = (where, { type, value, weight, threshold }) => {
		if (threshold !== undefined || weight !== undefined && weight !== 0 && weight !== 1)
			warn(`${where}: the gate says which score of the judge is enough, not "threshold" or "weight"`);
		if (weight === 0)
			return warn(`${where}: a judge whose weight is 0 is not asked`);
		const rubric = valueOf(value, vars, files);
		if (typeof rubric !== "string" && (typeof rubric !== "object" || rubric === null))
			throw new Error(`${name}: ${type} needs a text`);
		if (transforms.length)
			warn(`${where}: the judge reads the answer as it is, without transforms`);
		rubrics.push(RUBRICS[type](typeof rubric === "string" ? rubric : JSON.stringify(rubric)));
	};

	test.assert.forEach((assert) => add(assert, checks));
	return { checks, rubrics };
}

// One rubric of all: the judge is asked once, for the criterion that is met least.
export function joinedRubric(rubrics) {
	if (rubrics.length < 2)
		return rubrics[0];
	return `The response has to meet ${rubrics.length} criteria. Score it by each of them alone, and answer with the lowest of \
these scores and its reason.\n\n${rubrics.map((text, i) => `Criterion ${i + 1}:\n${text}`).join("\n\n")}`;
}
