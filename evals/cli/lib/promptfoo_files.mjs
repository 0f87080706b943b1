// promptfoo_files.mjs: the files that a promptfoo config refers to
//
// A config is often somebody else's.  It reaches only files below the folder
// "root", by default its own folder, so that none of the importer's other files
// ends in a set and is sent to a model.
import { readFileSync, readdirSync, realpathSync } from "node:fs";
import { dirname, extname, join, relative, resolve, sep } from "node:path";
import { parse as parseCsv } from "csv-parse/sync";
import yaml from "js-yaml";
import { readJsonLines } from "./lines.mjs";
import { toCommonJs } from "./script.mjs";

const SCRIPT = /\.(js|cjs|mjs)$/;
const FOREIGN = /\.(py|rb|ts|cts|mts|pdf|xlsx?)(:[\w$.]+)?$/;

export class Files {
	constructor(config, root = dirname(config)) {
		this.root = realpathSync(root);
		this.base = dirname(resolve(config));
	}

	// The path of a reference, with or without file://, relative to a folder.
	path(reference, base = this.base) {
		const path = resolve(base, reference.replace(/^file:\/\//, ""));
		let real;

		if (FOREIGN.test(reference))
			throw new Error(`"${reference}" is not supported: no such file is run or read`);
		try {
			real = realpathSync(path);
		} catch {
			throw new Error(`there is no file "${reference}"`);
		}
		if (real !== this.root && !real.startsWith(this.root.endsWith(sep) ? this.root : this.root + sep))
			throw new Error(`"${reference}" is outside ${this.root}: say with --root which folder may be read`);
		return real;
	}

	text(reference, base) {
		return readFileSync(this.path(reference, base), "utf8");
	}

	// A value: the document of a JSON or YAML file, or the text of another.
	value(reference, base) {
		const text = this.text(reference, base);

		return /\.(json|ya?ml)$/.test(reference) ? yaml.load(text) : text.trim();
	}

	isScript(reference) {
		return /^file:\/\//.test(reference) && SCRIPT.test(reference.replace(/:[\w$]+$/, ""));
	}

	// A script "file://x.js" or "file://x.js:name", which runs without its folder.
	script(reference, base) {
		const [, path, name] = /^(.*?\.(?:js|cjs|mjs))(?::([\w$]+))?$/.exec(reference) ?? [];

		if (!path)
			throw new Error(`"${reference}" is no script in JavaScript`);
		const source = toCommonJs(this.text(path, base));
		if (/^\s*import\b|\brequire\s*\(/m.test(source))
			throw new Error(`"${reference}" needs other modules, which is not supported`);
		return { source, file: true, ...name ? { name } : {} };
	}

	// The paths that a pattern stands for, in their order: * is any part of a name,
	// ** any folders.
	glob(pattern, base = this.base) {
		const whole = resolve(base, pattern.replace(/^file:\/\//, ""));
		const at = whole.search(/[*?[{]/);

		if (at < 0)
			return [this.path(whole)];
		if (/[[{]/.test(whole))
			throw new Error(`pattern "${pattern}" is not supported: it may have *, ** and ?`);
		const folder = this.path(whole.slice(0, whole.lastIndexOf("/", at)) || "/");
		const matches = new RegExp(`^${whole.slice(whole.lastIndexOf("/", at) + 1).replace(/[.+^$()|\\]/g, "\\$&")
			.replace(/\*\*\/|\*\*|\*|\?/g, (found) => ({ "**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]" })[found])}$`);
		return readdirSync(folder, { recursive: true, withFileTypes: true })
			.filter((entry) => entry.isFile())
			.map((entry) => join(entry.parentPath ?? entry.path, entry.name))
			.filter((path) => matches.test(relative(folder, path)))
			.sort();
	}

	// The tests of a file.
	tests(path) {
		const kind = extname(path);

		if (kind === ".csv")
			return this.rows(path).map(testOfRow);
		if (kind === ".jsonl")
			return readJsonLines(this.path(path)).map(({ value }) => value);
		if (![".yaml", ".yml", ".json"].includes(kind))
			throw new Error(`tests in "${path}" are not supported: they are YAML, JSON, JSON Lines or CSV`);
		return [dereferenced(yaml.load(this.text(path)))].flat();
	}

	rows(path) {
		const text = this.text(path);
		const options = { columns: true, bom: true };

		try {
			return parseCsv(text, options);
		} catch {
			return parseCsv(text, { ...options, relax_quotes: true });
		}
	}
}

// How many values a document has at most.  A few lines of YAML whose anchors repeat
// each other can stand for more than any machine holds.
const MOST_VALUES = 5_000_000;

// A document whose {$ref: "#/a/b"} are replaced by what stands there.
export function dereferenced(document) {
	let values = 0;
	const find = (pointer) => pointer.split("/").slice(1)
		.reduce((at, key) => at?.[key.replace(/~1/g, "/").replace(/~0/g, "~")], document);
	const walk = (value, within) => {
		if (++values > MOST_VALUES)
			throw new Error(`the document has more than ${MOST_VALUES} values`);
		if (typeof value !== "object" || value === null)
			return value;
		if (typeof value.$ref === "string" && value.$ref.startsWith("#/")) {
			const found = find(value.$ref);
			if (found === undefined || within.includes(value.$ref))
				throw new Error(`$ref "${value.$ref}" ${found === undefined ? "leads nowhere" : "contains itself"}`);
			return walk(found, [...within, value.$ref]);
		}
		return Array.isArray(value) ? value.map((one) => walk(one, within))
			: Object.fromEntries(Object.entries(value).map(([key, one]) => [key, walk(one, within)]));
	};

	return walk(document, []);
}

const LISTS = /^(not-)?i?contains-(all|any)$/;
const THRESHOLDS = { similar: 0.8, cost: 0.75, latency: 0.75, levenshtein: 0.75, "starts-with": 0.75 };

// The assertion that a cell of a column "__expected" stands for.
function assertOfText(text, known) {
	const [, script] = /^(?:javascript|fn|eval):([\s\S]*)$/.exec(text) ?? [];
	const [, rubric] = /^(?:grade|llm-rubric):([\s\S]*)$/.exec(text) ?? [];

	if (script !== undefined || /^file:\/\/.*\.(js|cjs|mjs)$/.test(text))
		return { type: "javascript", value: (script ?? text).trim() };
	if (rubric !== undefined)
		return { type: "llm-rubric", value: rubric };
	const [, type, threshold, value] = /^((?:not-)?[a-z][a-z-]*)(?:\((\d+(?:\.\d+)?)\))?(?::([\s\S]*))?$/.exec(text) ?? [];
	if (!type || !known(type))
		return { type: "equals", value: text };
	const usual = THRESHOLDS[type.replace(/^not-/, "")];
	if (LISTS.test(type))
		return { type, value: value?.split(",").map((part) => part.trim()) };
	return { type, value: type.endsWith("-json") ? value : value?.trim(),
		...usual !== undefined ? { threshold: threshold === undefined ? usual : Number(threshold) } : {} };
}

// A test from a row of a table: columns are variables, those that begin with two
// underscores say what is expected.
function testOfRow(row) {
	const test = { vars: {}, assert: [], options: {}, metadata: {} };
	const thresholds = new Map();
	let metric;

	for (const [name, value] of Object.entries(row).map(([name, value]) => [name.trim(), value])) {
		const [, which] = /^__config:__expected(\d*):threshold$/.exec(name) ?? [];
		if (which !== undefined)
			thresholds.set(which ? which - 1 : 0, Number(value));
		else if (name.startsWith("__expected")) {
			if (value.trim())
				test.assert.push(assertOfText(value.trim(), isAssertion));
		} else if (name === "__prefix" || name === "__suffix")
			test.options[name.slice(2)] = value;
		else if (name === "__description")
			test.description = value;
		else if (name === "__threshold")
			test.threshold = Number(value) || undefined;
		else if (name === "__metric")
			metric = value;
		else if (name.startsWith("__metadata:")) {
			if (value.trim())
				test.metadata[name.slice("__metadata:".length).replace(/\[\]$/, "")] = name.endsWith("[]")
					? value.split(/(?<!\\),/).map((one) => one.trim().replace("\\,", ",")) : value;
		} else if (name.startsWith("__"))
			throw new Error(`column "${name}" is not supported`);
		else
			test.vars[name] = value;
	}
	test.assert.forEach((assert, i) => Object.assign(assert, metric ? { metric } : {},
		Number.isFinite(thresholds.get(i)) ? { threshold: thresholds.get(i) } : {}));
	return test;
}

// The names of all assertions that promptfoo has, so that an unsupported one in a
// table is refused, and not taken for a text that the answer has to equal.
const ASSERTIONS = new Set(["answer-relevance", "bleu", "classifier", "contains", "contains-all", "contains-any",
	"contains-html", "contains-json", "contains-sql", "contains-xml", "context-faithfulness", "context-recall",
	"context-relevance", "cost", "equals", "factuality", "finish-reason", "g-eval", "gleu", "guardrails", "icontains",
	"icontains-all", "icontains-any", "is-html", "is-json", "is-refusal", "is-sql", "is-valid-function-call",
	"is-valid-openai-function-call", "is-valid-openai-tools-call", "is-xml", "javascript", "latency", "levenshtein",
	"llm-rubric", "meteor", "model-graded-closedqa", "model-graded-factuality", "moderation", "perplexity",
	"perplexity-score", "pi", "python", "regex", "rouge-n", "ruby", "similar", "starts-with", "webhook"]);
const isAssertion = (type) => ASSERTIONS.has(type.replace(/^not-/, ""));
