// promptfoo.mjs: cases from promptfoo's configs and lists of tests
//
// Each test with each prompt is a case.  A feature that this harness lacks is
// refused by name, so that no set passes because half of it was left out.
import { readFileSync } from "node:fs";
import { basename, dirname, extname, resolve } from "node:path";
import yaml from "js-yaml";
import { readJsonLines } from "./lines.mjs";
import { render, renderMessages } from "./prompt.mjs";

const CONFIG = ["description", "prompts", "providers", "targets", "tests", "defaultTest", "evaluateOptions",
	"commandLineOptions", "outputPath", "sharing", "tags", "metadata", "writeLatestResults"];
const TEST = ["description", "vars", "assert", "threshold", "metadata", "options"];
const OPTIONS = ["provider", "rubricPrompt"];	// the config's judge and template replace both
const CHECKS = ["equals", "contains", "regex", "starts-with", "is-json"];
const ASSERT = ["type", "value", "weight", "threshold", "metric", "provider", "rubricPrompt"];

export function fromPromptfoo(file, { task = "default" } = {}) {
	const config = readConfig(file);
	const prompts = (config.prompts ?? []).map(promptText);
	const base = config.defaultTest ?? {};
	const cases = [];

	only("config", config, CONFIG);
	only("defaultTest", base, TEST);
	config.tests.forEach((test, i) => {
		const name = `test ${i + 1}`;
		only(name, test, TEST);
		const whole = { ...base, ...test, vars: { ...base.vars, ...test.vars },
			assert: [...base.assert ?? [], ...test.assert ?? []], metadata: { ...base.metadata, ...test.metadata } };
		only(name, { ...base.options, ...test.options }, OPTIONS);
		combinations(name, whole.vars).forEach((vars, j) =>
			(prompts.length ? prompts : [null]).forEach((prompt, k) => cases.push({
				name: `${i + 1}${j ? `.${j + 1}` : ""}${k ? `/${k + 1}` : ""}`,
				source: `${basename(file)}: ${name}`,
				task: whole.metadata.task ?? task,
				input: prompt === null ? vars : { messages: renderMessages(prompt, vars) },
				...asserts(name, whole, vars),
				...whole.metadata.tags ? { tags: whole.metadata.tags } : {},
			})));
	});
	return cases;
}

function only(where, object, known) {
	for (const key of Object.keys(object))
		if (!known.includes(key))
			throw new Error(`${where}: "${key}" is not supported`);
}

// A config, or a list of tests alone.
function readConfig(file) {
	const content = extname(file) === ".jsonl" ? readJsonLines(file).map(({ value }) => value)
		: yaml.load(readFileSync(file, "utf8"));
	const config = Array.isArray(content) ? { tests: content } : content;

	if (typeof config?.tests === "string")
		config.tests = readConfig(resolve(dirname(file), config.tests.replace(/^file:\/\//, ""))).tests;
	if (!Array.isArray(config?.tests))
		throw new Error("there is no list of tests");
	if (typeof config.prompts === "string")
		config.prompts = [config.prompts];
	return config;
}

function promptText(prompt) {
	const text = typeof prompt === "string" ? prompt : prompt?.raw;

	if (typeof text !== "string" || /^(file|portkey|langfuse|helicone):\/\//.test(text) || /^- role:/.test(text.trim()))
		throw new Error(`prompt ${JSON.stringify(prompt)} is not supported: write its text here`);
	return text;
}

// A list of strings stands for one test each.
function combinations(name, vars) {
	let all = [{}];

	for (const [key, value] of Object.entries(vars)) {
		const values = Array.isArray(value) && typeof value[0] === "string" ? value : [value];
		if (values.some((v) => typeof v === "string" && /^file:\/\/|\{\{/.test(v)))
			throw new Error(`${name}: variable "${key}" is a file or a template, which is not supported`);
		all = all.flatMap((one) => values.map((v) => ({ ...one, [key]: typeof v === "string" ? v.replace(/\n$/, "") : v })));
	}
	return all;
}

// Checks, with variables in their values replaced, and the rubric.
function asserts(name, test, vars) {
	const checks = [], rubrics = [];

	for (const assert of test.assert) {
		only(`${name}, ${assert.type}`, assert, ASSERT);
		const value = replaced(name, assert.value, vars);
		const { type, weight, threshold } = assert;
		const rest = { ...weight === undefined ? {} : { weight }, ...threshold === undefined ? {} : { threshold } };
		if (type === "llm-rubric")
			rubrics.push(rubricOf(name, value, rest));
		else if (CHECKS.includes(type.replace(/^not-/, "")))
			checks.push({ type, ...value === undefined ? {} : { value }, ...rest });
		else
			throw new Error(`${name}: assertion "${type}" is not supported`);
	}
	if (rubrics.length > 1)
		throw new Error(`${name}: a case has one llm-rubric at most`);
	return { checks, ...rubrics.length ? { rubric: rubrics[0] } : {},
		...test.threshold ? { threshold: test.threshold } : {} };
}

// A judge is asked when all checks pass, and its score is the case's.
function rubricOf(name, value, rest) {
	const [more] = Object.keys(rest);

	if (more)
		throw new Error(`${name}: "${more}" of llm-rubric is not supported: gates say which score is enough`);
	if (typeof value !== "string")
		throw new Error(`${name}: llm-rubric needs a text`);
	return value;
}

function replaced(name, value, vars) {
	if (Array.isArray(value))
		return value.map((v) => replaced(name, v, vars));
	if (typeof value !== "string")
		return value;
	if (value.startsWith("file://"))
		throw new Error(`${name}: "${value}" is not supported: write the value here`);
	return render(value, vars);
}
