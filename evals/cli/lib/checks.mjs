// checks.mjs: decides a response's checks as promptfoo 0.118.17 does
//
// A check is {type, value, weight, threshold, transform}.  A type that starts with
// "not-" negates.  A check that cannot be decided, as one whose schema is malformed,
// fails its case whatever the other checks say.
import { isDeepStrictEqual } from "node:util";
import { createRequire } from "node:module";
import yaml from "js-yaml";
import { exactMatch } from "./exact_match.mjs";
import { isGreedy, isRightChoice } from "./likelihood.mjs";
import { runScript } from "./script.mjs";
import { similarTo } from "./similarity.mjs";

const require = createRequire(import.meta.url);
const Ajv = require("ajv");
const addFormats = require("ajv-formats");
const schemas = new Map();
const MOST_SCHEMAS = 100;
const MOST_WEIGHT = 1_000_000;
const LONGEST_ERROR = 1000;

// A function that says whether a document fits the schema.  Strict schemas,
// which promptfoo wants, have no unknown or idle keyword.
export function compileSchema(schema, { strict = true, others = {} } = {}) {
	const ajv = new Ajv({ strict: false, strictSchema: strict, logger: false });

	addFormats(ajv);
	for (const [id, other] of Object.entries(others))
		ajv.addSchema(other, id);
	return ajv.compile(schema);
}

// Runs meet the same few schemas again and again.  Many different ones would leave
// no memory for a case that needs little.
function fitsSchema(schema, document) {
	const key = JSON.stringify(schema);

	if (schemas.size >= MOST_SCHEMAS && !schemas.has(key))
		schemas.clear();
	if (!schemas.has(key))
		schemas.set(key, compileSchema(typeof schema === "string" ? yaml.load(schema) : schema));
	return schemas.get(key)(document);
}

function needs(what, value, ...types) {
	if (!value || !types.includes(typeof value))
		throw new Error(`${what} needs a value that is a ${types.join(" or ")}`);
}

function parse(text) {
	try {
		return { document: JSON.parse(text) };
	} catch {
		return null;
	}
}

// The JSON objects in a text, read as leniently as promptfoo reads them: as YAML,
// and one that the text's end cuts off as if its braces were closed.
function jsonObjects(text) {
	const all = [];

	for (let start = text.indexOf("{"); start >= 0; start = text.indexOf("{", start + 1)) {
		const [end, open] = closing(text, start);
		try {
			const part = text.slice(start, end) + "}".repeat(open);
			const object = yaml.load(part.replace(/("(?:[^"\\]|\\.)*")|\/\//g, (found, string) => string ?? "#"), { json: true });
			if (typeof object === "object" && object !== null) {
				all.push(object);
				start = end - 1;
			}
		} catch {
			// what follows the brace is no object
		}
	}
	return all;
}

const LONGEST_OBJECT = 100_000;

// Where the braces that open at "start" are closed, or where the search ends, and
// how many are open there.
function closing(text, start) {
	const end = Math.min(text.length, start + LONGEST_OBJECT);
	let open = 0;

	for (let at = start; at < end; at++) {
		if (text[at] === "{")
			open++;
		else if (text[at] === "}" && --open === 0)
			return [at + 1, 0];
	}
	return [end, open];
}

// How many characters have to be changed, added or removed to make one text another.
function editDistance(one, other) {
	let row = Uint32Array.from({ length: other.length + 1 }, (_, i) => i);

	for (let i = 0; i < one.length; i++) {
		const next = new Uint32Array(row.length);
		next[0] = i + 1;
		for (let j = 0; j < other.length; j++)
			next[j + 1] = Math.min(row[j + 1] + 1, next[j] + 1, row[j] + (one[i] === other[j] ? 0 : 1));
		row = next;
	}
	return row[other.length];
}

const quoted = (text) => (text.match(/(".*?"|[^,]+)(?=\s*,|\s*$)/g) ?? []).map((part) => part.trim().replace(/^"|"$/g, ""));
const separated = (text) => text.split(",").map((part) => part.trim());

// The texts of a list, which may be written with commas.
function parts(type, value, split = separated) {
	const all = value && typeof value === "string" ? split(value) : value;

	if (!Array.isArray(all))
		throw new Error(`${type} needs a list`);
	return all.map(String);
}

const lower = (value) => String(value).toLowerCase();

function limit({ type, threshold }) {
	if (typeof threshold !== "number")
		throw new Error(`${type} needs a threshold that is a number`);
	return threshold;
}

// Each takes the check, the response as a text, whether the check is an opposite,
// the response as transforms left it, and what is known of the call.  It returns
// whether the check passes, or {pass, score}.
const decide = {
	exact_match: (check, output, inverse) => exactMatch(check, output) !== inverse,
	multiple_choice: (check, output) => isRightChoice(check, output),
	loglikelihood: (check, output) => isGreedy(check, output),
	similar: (check, output, inverse, answer, { similarities }) => similarTo(check, output, inverse, similarities),
	equals({ value }, output, inverse) {
		if (typeof value !== "object")
			return (String(value) === output) !== inverse;
		const parsed = parse(output);
		return parsed !== null && isDeepStrictEqual(value, parsed.document) !== inverse;
	},
	contains({ value }, output, inverse) {
		needs("contains", value, "string", "number");
		return output.includes(String(value)) !== inverse;
	},
	icontains({ value }, output, inverse) {
		needs("icontains", value, "string", "number");
		return lower(output).includes(lower(value)) !== inverse;
	},
	"contains-any": ({ type, value }, output, inverse) =>
		parts(type, value, quoted).some((part) => output.includes(part)) !== inverse,
	"contains-all": ({ type, value }, output, inverse) =>
		parts(type, value).every((part) => output.includes(part)) !== inverse,
	"icontains-any": ({ type, value }, output, inverse) =>
		parts(type, value).some((part) => lower(output).includes(lower(part))) !== inverse,
	"icontains-all": ({ type, value }, output, inverse) =>
		parts(type, value).every((part) => lower(output).includes(lower(part))) !== inverse,
	regex({ value }, output, inverse) {
		needs("regex", value, "string");
		let pattern;
		try {
			pattern = new RegExp(value);
		} catch {
			return false;
		}
		return pattern.test(output) !== inverse;
	},
	"starts-with"({ value }, output, inverse) {
		needs("starts-with", value, "string");
		return output.startsWith(value) !== inverse;
	},
	levenshtein({ value, threshold = 5 }, output) {
		if (typeof value !== "string")
			throw new Error("levenshtein needs a value that is a string");
		return editDistance(output, value) <= threshold;
	},
	"is-json"({ value }, output, inverse) {
		const parsed = parse(output);
		if ((parsed !== null) === inverse)
			return false;
		if (!value)
			return true;
		needs("is-json", value, "string", "object");
		return fitsSchema(value, parsed?.document);
	},
	"contains-json"({ value }, output, inverse) {
		const objects = jsonObjects(output);
		if (!value || objects.length === 0)
			return (objects.length > 0) !== inverse;
		needs("contains-json", value, "string", "object");
		return objects.some((object) => fitsSchema(value, object));
	},
	latency(check, output, inverse, answer, { latencyMs }) {
		if (latencyMs === undefined)
			throw new Error("how long the call took is not known");
		return latencyMs <= limit(check);
	},
	cost(check, output, inverse, answer, { cost }) {
		if (cost === undefined)
			throw new Error("what the call cost is not known");
		return cost <= limit(check);
	},
	"finish-reason"({ value }, output, inverse, answer, { finishReason }) {
		needs("finish-reason", value, "string");
		return finishReason !== undefined && lower(finishReason) === lower(value);
	},
	javascript({ value, threshold, context }, output, inverse, answer, call) {
		let result;
		try {
			result = runScript(value, answer, { vars: {}, ...context, providerResponse: { output: answer, ...call } });
		} catch (error) {
			return { pass: false, score: 0, reason: error.message };
		}
		if (typeof result === "boolean")
			return result !== inverse;
		if (typeof result === "number")
			return { pass: threshold === undefined ? result > 0 : result >= threshold, score: result };
		if (typeof result?.pass === "boolean" && typeof result.score === "number" && typeof result.reason === "string")
			return { pass: result.pass, score: result.score, reason: result.reason };
		return { pass: false, score: 0, reason: "the script returns neither a boolean, a number nor {pass, score, reason}" };
	},
	"assert-set"({ assert, threshold }, output, inverse, answer, call) {
		if (!Array.isArray(assert))
			throw new Error("assert-set needs a list of checks");
		const results = assert.map((check) => runCheck(check, answer, call));
		const broken = results.find(({ error }) => error);
		if (broken)
			throw new Error(broken.error);
		return verdictOf(results, threshold, 0);
	},
};

// The answer as a check's transforms leave it, each an expression or a script.
function transformed(scripts, answer, context) {
	return [scripts].flat().reduce((value, script) => {
		const result = runScript(script, value, context);
		if (result === null || result === undefined)
			throw new Error("a transform returns nothing");
		return result;
	}, answer);
}

const baseOf = (type) => type.startsWith("not-") ? type.slice(4) : type;

const between0and1 = (score) => score >= 0 ? Math.min(score, 1) : 0;

// One check's result: whether it passes, its score, and the error that kept it from
// being decided, if any.  Without weight it only informs.
export function runCheck(check, output, call = {}) {
	const { type, weight = 1, transform } = check ?? {};

	try {
		if (!(weight >= 0 && weight <= MOST_WEIGHT))
			throw new Error(`a weight is 0 to ${MOST_WEIGHT}`);
		if (!Object.hasOwn(decide, baseOf(type)))
			throw new Error(`check "${type}" is not known`);
		const answer = transform ? transformed(transform, output, { vars: {}, ...check.context }) : output;
		const text = typeof answer === "string" ? answer : JSON.stringify(answer);
		const decided = decide[baseOf(type)](check, text, baseOf(type) !== type, answer, call);
		const { pass, score, reason } = typeof decided === "object" ? decided : { pass: decided, score: decided ? 1 : 0 };
		return { type, pass: pass || weight === 0, score: between0and1(score), weight,
			...reason ? { reason: reason.slice(0, LONGEST_ERROR) } : {} };
	} catch (error) {
		return { type, pass: false, score: 0, weight: 1, error: error.message.slice(0, LONGEST_ERROR) };
	}
}

// The verdict of all results of a case: the weighted mean, and whether the
// case passes: with a threshold by the mean, else if each check does.
export function verdictOf(results, threshold, ofNone = 1) {
	const weights = results.reduce((sum, result) => sum + result.weight, 0);
	const score = results.length === 0 ? ofNone : weights > 0
		? results.reduce((sum, result) => sum + result.score * result.weight, 0) / weights : 0;

	if (results.some((result) => result.error))
		return { pass: false, score: 0 };
	return { pass: threshold ? score >= threshold : results.every((result) => result.pass), score };
}

// "call" is what is known of the call: latencyMs, cost, finishReason.
export function runChecks(checks, output, threshold, call) {
	const results = checks.map((check) => runCheck(check, output, call));

	return { results, ...verdictOf(results, threshold) };
}
