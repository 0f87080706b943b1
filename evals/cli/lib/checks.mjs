// checks.mjs: decides a response's checks as promptfoo 0.118.17 does
//
// A check is {type, value, weight, threshold}.  A type that starts with "not-"
// negates.  A check that cannot be decided, as one whose schema is malformed,
// fails its case whatever the other checks say.
import { isDeepStrictEqual } from "node:util";
import { createRequire } from "node:module";
import yaml from "js-yaml";
import { exactMatch } from "./exact_match.mjs";

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

// Each takes the check, the response and whether the check is an opposite.
const decide = {
	exact_match: (check, output, inverse) => exactMatch(check, output) !== inverse,
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
	"is-json"({ value }, output, inverse) {
		const parsed = parse(output);
		if ((parsed !== null) === inverse)
			return false;
		if (!value)
			return true;
		needs("is-json", value, "string", "object");
		return fitsSchema(value, parsed?.document);
	},
};

const baseOf = (type) => type.startsWith("not-") ? type.slice(4) : type;

// One check's result: whether it passes, and the error that kept it from
// being decided, if any.  Without weight it only informs.
export function runCheck(check, output) {
	const { type, weight = 1 } = check ?? {};

	try {
		if (!(weight >= 0 && weight <= MOST_WEIGHT))
			throw new Error(`a weight is 0 to ${MOST_WEIGHT}`);
		if (!Object.hasOwn(decide, baseOf(type)))
			throw new Error(`check "${type}" is not known`);
		const passes = decide[baseOf(type)](check, output, baseOf(type) !== type);
		return { type, pass: passes || weight === 0, score: passes ? 1 : 0, weight };
	} catch (error) {
		return { type, pass: false, score: 0, weight: 1, error: error.message.slice(0, LONGEST_ERROR) };
	}
}

// The verdict of all results of a case: the weighted mean, and whether the
// case passes: with a threshold by the mean, else if each check does.
export function verdictOf(results, threshold) {
	const weights = results.reduce((sum, result) => sum + result.weight, 0);
	const score = results.length === 0 ? 1 : weights > 0
		? results.reduce((sum, result) => sum + result.score * result.weight, 0) / weights : 0;

	if (results.some((result) => result.error))
		return { pass: false, score: 0 };
	return { pass: threshold ? score >= threshold : results.every((result) => result.pass), score };
}

export function runChecks(checks, output, threshold) {
	const results = checks.map((check) => runCheck(check, output));

	return { results, ...verdictOf(results, threshold) };
}
