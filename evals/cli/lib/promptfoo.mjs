// promptfoo.mjs: cases from promptfoo's configs and lists of tests
//
// Each test with each prompt is a case.  What would change a verdict and is not
// supported is refused by its name, so that no set passes because half of it was
// left out; what changes none is a warning.  Providers are no part of a case: a
// run says which model it asks.
import { basename, extname } from "node:path";
import { readFileSync } from "node:fs";
import yaml from "js-yaml";
import { readJsonLines } from "./lines.mjs";
import { renderMessages } from "./prompt.mjs";
import { dereferenced, Files } from "./promptfoo_files.mjs";
import { joinedRubric, readAsserts } from "./promptfoo_asserts.mjs";

const CONFIG = ["description", "prompts", "providers", "targets", "tests", "scenarios", "defaultTest", "evaluateOptions",
	"commandLineOptions", "outputPath", "sharing", "tags", "metadata", "writeLatestResults", "assertionTemplates", "$schema"];
const REFUSED_CONFIG = ["redteam", "extensions", "nunjucksFilters"];
const TEST = ["description", "vars", "assert", "threshold", "metadata", "options", "provider", "transforms", "base"];
const REFUSED_TEST = ["providerOutput", "assertScoringFunction"];
const OPTIONS = ["provider", "rubricPrompt", "transform", "postprocess", "prefix", "suffix", "disableVarExpansion"];
const REFUSED_OPTIONS = ["storeOutputAs", "transformVars", "disableDefaultAsserts"];

const toStandardError = (text) => process.stderr.write(`gpucredit-eval: ${text}\n`);

export function fromPromptfoo(file, { task = "default", root, warn = toStandardError } = {}) {
	const files = new Files(file, root);
	const warned = new Set();
	const warnOnce = (text) => warned.has(text) || (warned.add(text), warn(text));
	const config = readConfig(file);
	const prompts = readPrompts(config.prompts, files);
	const cases = [];

	check("config", config, CONFIG, REFUSED_CONFIG, warnOnce);
	readTests(config, files, warnOnce).forEach((test, i) => {
		const name = `test ${i + 1}`;
		combinations(name, test, files).forEach((vars, j) =>
			(prompts.length ? prompts : [null]).forEach((prompt, k) => cases.push({
				name: `${i + 1}${j ? `.${j + 1}` : ""}${k ? `/${k + 1}` : ""}`,
				source: `${basename(file)}: ${name}`,
				task: test.metadata.task ?? task,
				...caseOf(name, test, prompt, resolved(vars, files), files, warnOnce),
				...test.metadata.tags ? { tags: [test.metadata.tags].flat() } : {},
			})));
	});
	return cases;
}

function check(where, object, known, refused, warn) {
	for (const key of Object.keys(object ?? {})) {
		if (refused.includes(key))
			throw new Error(`${where}: "${key}" is not supported`);
		if (!known.includes(key))
			warn(`${where}: "${key}" is left out`);
	}
}

// A config, or a list of tests alone.
function readConfig(file) {
	const content = extname(file) === ".jsonl" ? readJsonLines(file).map(({ value }) => value)
		: extname(file) === ".csv" ? { tests: basename(file) } : yaml.load(readFileSync(file, "utf8"));
	const config = dereferenced(Array.isArray(content) ? { tests: content } : content);

	if (config?.tests === undefined && config?.scenarios === undefined)
		throw new Error("there is no list of tests");
	return config;
}

const asList = (value) => value === undefined || value === null ? [] : [value].flat();

// All tests, with those of scenarios, each with the default test in it.
function readTests(config, files, warn) {
	const base = typeof config.defaultTest === "string" ? files.value(config.defaultTest) : config.defaultTest ?? {};
	const ofProviders = transformsOfProviders(config);
	const scenarios = asList(config.scenarios).flatMap((one) => typeof one === "string" ? files.glob(one).flatMap((path) => files.tests(path)) : [one]);
	const tests = [
		...listOfTests(config.tests, files),
		...scenarios.flatMap(({ config = [], tests = [{}] }) => asList(config).flatMap((data) =>
			listOfTests(tests, files).map((test) => ({ ...data, ...test, vars: { ...data.vars, ...test.vars },
				options: { ...data.options, ...test.options }, metadata: { ...data.metadata, ...test.metadata },
				assert: [...data.assert ?? [], ...test.assert ?? []] })))),
	];

	check("defaultTest", base, TEST, REFUSED_TEST, warn);
	return tests.map((test, i) => {
		const name = `test ${i + 1}`;
		const options = { ...base.options, ...test.options };
		check(name, test, TEST, REFUSED_TEST, warn);
		check(name, options, OPTIONS, REFUSED_OPTIONS, warn);
		const own = options.transform ?? options.postprocess;
		return { ...base, ...test, options, vars: { ...varsOf(base, files), ...varsOf(test, files) },
			assert: [...base.assert ?? [], ...test.assert ?? []].flatMap((assert) => typeof assert === "string" ? files.value(assert) : [assert]),
			metadata: { ...base.metadata, ...test.metadata }, transforms: [...ofProviders, ...own ? [own] : []] };
	});
}

// What stands under "tests": tests, files and patterns of files.
function listOfTests(tests, files) {
	return asList(tests).flatMap((test) => {
		const path = typeof test === "string" ? test : test?.path;
		if (typeof path !== "string")
			return [test ?? {}];
		if (/^(https?|huggingface):/.test(path))
			throw new Error(`tests "${path}" are not supported: fetch them, and name a file`);
		return files.glob(path).flatMap((found) => listOfTests(files.tests(found), files));
	});
}

// A test's variables, which may stand in files.
function varsOf({ vars = {} }, files) {
	if (typeof vars === "string" || Array.isArray(vars))
		return Object.assign({}, ...asList(vars).flatMap((one) => files.glob(one)).map((path) => files.value(path)));
	return vars ?? {};
}

// Transforms of answers that all providers share.
function transformsOfProviders({ providers, targets }) {
	const all = asList(providers ?? targets).map((one) => typeof one === "object" ? one?.transform ?? Object.values(one ?? {})[0]?.transform : undefined);

	if (new Set(all).size > 1)
		throw new Error("providers of different transforms are not supported: import a config for each");
	return all.slice(0, 1).filter(Boolean);
}

const PROMPT_FILE = /\.(txt|md|j2|json|jsonl|ya?ml|csv|py|[cm]?[jt]s)$/;
const FOREIGN_PROMPT = /^(portkey|langfuse|helicone):\/\//;

// The texts of prompts.  A prompt that looks like a path and is a file is read.
function readPrompts(prompts, files) {
	const list = typeof prompts === "object" && prompts !== null && !Array.isArray(prompts) ? Object.keys(prompts) : asList(prompts);

	return list.flatMap((prompt) => {
		const text = typeof prompt === "string" ? prompt : prompt?.raw ?? prompt?.id;
		if (typeof text !== "string" || FOREIGN_PROMPT.test(text))
			throw new Error(`prompt ${JSON.stringify(prompt)} is not supported: write its text here`);
		const isFile = text.startsWith("file://") || !text.includes("\n") && (PROMPT_FILE.test(text) || /^[^\s{}]+\*[^\s{}]*$/.test(text));
		return isFile ? files.glob(text).flatMap((path) => promptsOf(path, files)) : [text];
	});
}

// A text file may have several prompts, between lines of three dashes.
function promptsOf(path, files) {
	const text = files.text(path);

	if (/\.(md|j2|json)$/.test(path))
		return [text];
	if (/\.ya?ml$/.test(path))
		return [JSON.stringify(yaml.load(text))];
	if (/\.jsonl$/.test(path))
		return readJsonLines(path).map(({ value }) => JSON.stringify(value));
	if (!/\.txt$/.test(path))
		throw new Error(`prompt "${path}" is not supported: a prompt is a text, Markdown, JSON or YAML`);
	const found = text.split(/^---[ \t]*\r?$/m).map((one) => one.trim()).filter(Boolean);
	if (found.length === 0)
		throw new Error(`there is no prompt in "${path}"`);
	return found;
}

// A list of texts stands for one test each, as does each file of a pattern.
function combinations(name, { vars, options }, files) {
	let all = [{}];

	for (const [key, value] of Object.entries(vars)) {
		const values = typeof value === "string" && value.startsWith("file://") ? files.glob(value).map((path) => `file://${path}`)
			: Array.isArray(value) && typeof value[0] === "string" && !options.disableVarExpansion ? value : [value];
		if (values.length === 0)
			throw new Error(`${name}: there is no file for variable "${key}"`);
		all = all.flatMap((one) => values.map((v) => ({ ...one, [key]: v })));
	}
	return all;
}

const ROUNDS = 5;

// Variables with files read and with other variables in them replaced.
function resolved(vars, files) {
	const all = Object.fromEntries(Object.entries(vars).map(([key, value]) =>
		[key, typeof value === "string" ? readVariable(value, files).replace(/\n$/, "") : value]));

	for (let round = 0; round < ROUNDS; round++)
		for (const [key, value] of Object.entries(all)) {
			const [found, other] = typeof value === "string" && /\{\{\s*(\w+)\s*\}\}/.exec(value) || [];
			if (found && all[other] !== undefined)
				all[key] = value.replace(found, () => all[other]);
		}
	return all;
}

const IMAGE = /\.(png|jpe?g|gif|webp|bmp|svg)$/i;

function readVariable(value, files) {
	if (!value.startsWith("file://"))
		return value;
	if (IMAGE.test(value))
		return readFileSync(files.path(value)).toString("base64");
	if (files.isScript(value))
		throw new Error(`variable "${value}" is not supported: no script is run for it`);
	return /\.ya?ml$/.test(value) ? JSON.stringify(files.value(value)) : files.text(value).trim();
}

function caseOf(name, test, prompt, vars, files, warn) {
	const { prefix = "", suffix = "" } = test.options;
	const { checks, rubrics } = readAsserts(name, test, vars, files, warn);
	const threshold = test.threshold || undefined;

	if (rubrics.length && checks.length && threshold)
		warn(`${name}: the threshold counts for checks; the judge is asked if they reach it`);
	return {
		input: prompt === null ? vars : { messages: renderMessages(prefix + prompt + suffix, vars) },
		checks, ...rubrics.length ? { rubric: joinedRubric(rubrics) } : {},
		...threshold && checks.length ? { threshold } : {},
	};
}
