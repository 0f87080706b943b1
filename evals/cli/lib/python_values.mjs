// python_values.mjs: values of Python, as python.mjs computes with them
//
// A string is a string, a list an array, a dict a Map and None is null.  Numbers
// are whole and exact; another one is refused, as Python writes it otherwise.
// Characters are counted by code points.
import { pythonRegex } from "./python_regex.mjs";

const MOST_LENGTH = 4_000_000;
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

export class Tuple extends Array {
	static get [Symbol.species]() {
		return Array;
	}
}

export class PythonError extends Error {}

const fail = (message) => {
	throw new PythonError(message);
};

// What a JSON document is in Python, and back.
export function toPython(value) {
	if (Array.isArray(value))
		return value.map(toPython);
	return typeof value === "object" && value !== null
		? new Map(Object.entries(value).map(([key, one]) => [key, toPython(one)])) : value;
}

export function fromPython(value) {
	if (Array.isArray(value))
		return Array.from(value, fromPython);
	if (value instanceof Map)
		return Object.fromEntries([...value].map(([key, one]) => [typeof key === "string" ? key : str(key), fromPython(one)]));
	return ["string", "number", "boolean"].includes(typeof value) || value === null ? value
		: fail(`a result that is a ${typeOf(value)} is not supported`);
}

export function copyOf(value) {
	if (Array.isArray(value))
		return value instanceof Tuple ? Tuple.from(value, copyOf) : value.map(copyOf);
	return value instanceof Map ? new Map([...value].map(([key, one]) => [key, copyOf(one)])) : value;
}

// What a dict finds again: keys that are lists or tuples are not.
export function keyOf(value) {
	return ["string", "number", "boolean"].includes(typeof value) || value === null ? value
		: fail(`a ${typeOf(value)} as a key is not supported`);
}

export function typeOf(value) {
	return value === null ? "None" : value instanceof Tuple ? "tuple" : Array.isArray(value) ? "list"
		: value instanceof Map ? "dict" : { string: "str", number: "int", boolean: "bool" }[typeof value] ?? value?.constructor?.name ?? "function";
}

export const truthy = (value) => value instanceof Map ? value.size > 0 : Array.isArray(value) ? value.length > 0 : Boolean(value);

export function equal(a, b) {
	if (Array.isArray(a) && Array.isArray(b))
		return a instanceof Tuple === b instanceof Tuple && a.length === b.length && a.every((one, i) => equal(one, b[i]));
	if (a instanceof Map && b instanceof Map)
		return a.size === b.size && [...a].every(([key, one]) => b.has(key) && equal(one, b.get(key)));
	return a === b || typeof a === "boolean" && Number(a) === b || typeof b === "boolean" && a === Number(b);
}

export function whole(value) {
	const number = typeof value === "boolean" ? Number(value) : value;

	return Number.isSafeInteger(number) ? number : fail(`${typeof value === "number" ? `the number ${value}` : `a ${typeOf(value)} as a number`} is not supported`);
}

export function text(value) {
	return typeof value === "string" ? value : fail(`a str is needed, not a ${typeOf(value)}`);
}

export function sized(value) {
	return (value instanceof Map ? value.size : value?.length ?? 0) <= MOST_LENGTH ? value
		: fail(`it makes more than ${MOST_LENGTH} values or characters`);
}

// What a for goes through.
export function items(value) {
	if (typeof value === "string")
		return Array.from(value);
	if (value instanceof Map)
		return [...value.keys()];
	return Array.isArray(value) ? value : value instanceof Dataset ? value.docs : fail(`a ${typeOf(value)} has no items`);
}

export function str(value) {
	return typeof value === "string" ? value : repr(value);
}

export function repr(value) {
	if (typeof value === "string")
		return quoted(value);
	if (value instanceof Tuple)
		return `(${Array.from(value, repr).join(", ")}${value.length === 1 ? "," : ""})`;
	if (Array.isArray(value))
		return `[${value.map(repr).join(", ")}]`;
	if (value instanceof Map)
		return `{${[...value].map(([key, one]) => `${repr(key)}: ${repr(one)}`).join(", ")}}`;
	if (typeof value === "boolean")
		return value ? "True" : "False";
	if (value === null)
		return "None";
	return typeof value === "number" && Math.abs(value) >= 1e-4 && Math.abs(value) < 1e16 ? String(value) : String(whole(value));
}

function quoted(value) {
	const mark = value.includes("'") && !value.includes('"') ? '"' : "'";

	if (/[^\x20-\x7e\t\n\r]/.test(value))		// Python knows which of these can be printed
		for (const one of value.replace(/[\x20-\x7e\t\n\r]/g, ""))
			if (!/[\p{L}\p{N}\p{P}\p{S}\p{M}]/u.test(one))
				fail(`repr() of the character ${JSON.stringify(one)} is not supported`);
	return mark + value.replaceAll("\\", "\\\\").replaceAll(mark, `\\${mark}`).replaceAll("\n", "\\n")
		.replaceAll("\r", "\\r").replaceAll("\t", "\\t") + mark;
}

// value[index], and value[from:to].
export function element(value, index) {
	if (value instanceof Map)
		return value.has(index) ? value.get(index) : fail(`there is no key ${repr(index)}`);
	const all = value instanceof Dataset ? value.docs : items(value), at = whole(index) < 0 ? all.length + whole(index) : whole(index);
	return at >= 0 && at < all.length ? all[at] : fail(`there is no element ${index} of ${all.length}`);
}

export function slice(value, from, to) {
	const all = typeof value === "string" ? Array.from(value) : Array.isArray(value) ? Array.from(value) : fail(`a ${typeOf(value)} has no parts`);
	const found = all.slice(from === null ? 0 : whole(from), to === null ? all.length : whole(to));

	return typeof value === "string" ? found.join("") : value instanceof Tuple ? Tuple.from(found) : found;
}

export function contains(value, part) {
	if (typeof value === "string")
		return value.includes(text(part));
	return value instanceof Map ? value.has(part) : items(value).some((one) => equal(one, part));
}

export function less(a, b) {
	if (Array.isArray(a) && Array.isArray(b)) {
		const at = a.findIndex((one, i) => i >= b.length || !equal(one, b[i]));
		return at < 0 ? a.length < b.length : at < b.length && less(a[at], b[at]);
	}
	if (typeof a === "string" && typeof b === "string") {
		const [x, y] = [Array.from(a), Array.from(b)], at = x.findIndex((one, i) => one !== y[i]);
		return at < 0 ? x.length < y.length : at < y.length && x[at].codePointAt(0) < y[at].codePointAt(0);
	}
	return whole(a) < whole(b);
}

export function sorted(list, key = (one) => one, reverse = false) {
	const keyed = list.map((one) => [key(one), one]);
	const order = ([a], [b]) => less(a, b) ? -1 : less(b, a) ? 1 : 0;

	return keyed.sort(reverse ? (a, b) => order(b, a) : order).map(([, one]) => one);
}

// A format like "{}: {name}" without specifications.
export function format(template, args, named) {
	let next = 0;

	return sized(template.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (found, name) => {
		if (found === "{{" || found === "}}")
			return found[0];
		if (name === undefined || !/^(\d*|[A-Za-z_]\w*)$/.test(name))
			fail(`the format ${repr(found)} is not supported`);
		return str(/^\d*$/.test(name) ? element(args, name === "" ? next++ : Number(name)) : element(new Map(Object.entries(named)), name));
	}));
}

const stripped = (which) => (value, set = null) => {
	const inside = set === null ? SPACE : Array.from(text(set), (one) => `\\u{${one.codePointAt(0).toString(16)}}`).join("");
	return inside === "" ? value : value.replace(new RegExp(which.map((end) => end(`[${inside}]+`)).join("|"), "gu"), "");
};
const left = (inside) => `^${inside}`, right = (inside) => `${inside}$`;

const place = (value, units) => units < 0 ? -1 : Array.from(value.slice(0, units)).length;
const found = (at) => at >= 0 ? at : fail("the text is not there");
const affix = (name) => (value, part) => (Array.isArray(part) ? part : [part]).some((one) => value[name](text(one)));

// The methods of a str; each has the arguments that it takes here.
export const STR = {
	strip: stripped([left, right]), lstrip: stripped([left]), rstrip: stripped([right]),
	replace: (value, from, to) => sized(value.split(text(from)).join(text(to))),
	split(value, by = null, most = null) {
		if (by === "")
			fail("an empty separator splits nothing");
		const parts = by === null ? STR.strip(value).split(new RegExp(`[${SPACE}]+`, "u")).filter((one) => one !== "") : value.split(text(by));
		if (most === null || whole(most) < 0 || parts.length <= most + 1)
			return parts;
		return by === null ? fail("split() at white space a number of times is not supported")
			: [...parts.slice(0, most), parts.slice(most).join(by)];
	},
	rsplit(value, by, most) {
		const parts = value.split(text(by)), at = Math.max(parts.length - whole(most), 1);
		return [parts.slice(0, at).join(by), ...parts.slice(at)];
	},
	splitlines: (value) => value.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/).filter((one, i, all) => i < all.length - 1 || one !== ""),
	join: (value, list) => sized(items(list).map(text).join(value)),
	lower: (value) => value.toLowerCase(), upper: (value) => value.toUpperCase(),
	capitalize: (value) => Array.from(value.toLowerCase(), (one, i) => i ? one : one.toUpperCase()).join(""),
	startswith: affix("startsWith"), endswith: affix("endsWith"),
	find: (value, part) => place(value, value.indexOf(text(part))), rfind: (value, part) => place(value, value.lastIndexOf(text(part))),
	index: (value, part) => found(STR.find(value, part)), rindex: (value, part) => found(STR.rfind(value, part)),
	count: (value, part) => part === "" ? Array.from(value).length + 1 : value.split(text(part)).length - 1,
	removeprefix: (value, part) => value.startsWith(text(part)) ? value.slice(part.length) : value,
	removesuffix: (value, part) => part !== "" && value.endsWith(text(part)) ? value.slice(0, -part.length) : value,
	isdigit: (value) => /^[0-9]+$/.test(value) || /[^\x00-\x7f]/.test(value) && fail("isdigit() of another script is not supported"),
	isspace: (value) => new RegExp(`^[${SPACE}]+$`, "u").test(value),
};

export const LIST = {
	append: (list, one) => void sized(list).push(one),
	extend: (list, more) => void sized(list).push(...items(more)),
	insert: (list, at, one) => void list.splice(whole(at), 0, one),
	pop(list, at = -1) {
		const one = element(list, at);
		list.splice(whole(at), 1);
		return one;
	},
	index: (list, part) => found(list.findIndex((one) => equal(one, part))),
	count: (list, part) => list.filter((one) => equal(one, part)).length,
	copy: (list) => [...list], reverse: (list) => void list.reverse(),
};

export const DICT = {
	get: (dict, key, otherwise = null) => dict.has(key) ? dict.get(key) : otherwise,
	keys: (dict) => [...dict.keys()], values: (dict) => [...dict.values()],
	items: (dict) => [...dict].map((pair) => Tuple.from(pair)),
	update: (dict, more) => void aDict(more).forEach((one, key) => dict.set(key, one)),
	pop: (dict, key, ...otherwise) => {
		const one = dict.has(key) || otherwise.length === 0 ? element(dict, key) : otherwise[0];
		dict.delete(key);
		return one;
	},
	copy: (dict) => new Map(dict),
};

// What a file binds stays as it is: no function changes it for the next call.
export function frozen(value) {
	if (Array.isArray(value))
		Object.freeze(value).forEach(frozen);
	if (value instanceof Map) {
		value.forEach(frozen);
		value.set = value.delete = () => fail("a change of what the file binds is not supported");
	}
	return value;
}

const aDict = (value) => value instanceof Map ? value : fail(`a dict is needed, not a ${typeOf(value)}`);

// A split of the library datasets: documents, and the lines that they come from.
export class Dataset {
	constructor(docs, lines = docs.map(() => null)) {
		Object.assign(this, { docs, lines });
	}

	get column_names() {
		return [...new Set(this.docs.flatMap((doc) => [...doc.keys()]))];
	}

	at(places) {
		return new Dataset(places.map((at) => element(this.docs, at)), places.map((at) => element(this.lines, at)));
	}
}

const IDLE = ["load_from_cache_file", "num_proc", "desc", "keep_in_memory"];

// The methods of a Dataset.  map() adds to each document what its function returns,
// as that library does.
export const DATASET = {
	map(set, change, { remove_columns: removed = [] } = {}) {
		const gone = typeof removed === "string" ? [removed] : items(removed);
		return new Dataset(set.docs.map((doc) => new Map([...[...doc].filter(([key]) => !gone.includes(key)),
			...aDict(change([copyOf(doc)]))])), set.lines);
	},
	filter: (set, keep) => set.at([...set.docs.keys()].filter((at) => truthy(keep([copyOf(set.docs[at])])))),
	select: (set, places) => set.at(items(places)),
};

export function datasetMethod(set, name) {
	return (args, named = {}) => {
		const unknown = Object.keys(named).find((one) => !IDLE.includes(one) && !(name === "map" && one === "remove_columns"));

		if (unknown !== undefined || args.length !== 1)
			fail(`${name}() with ${unknown === undefined ? `${args.length} arguments` : `"${unknown}"`} is not supported`);
		return DATASET[name](set, args[0], named);
	};
}

const replacement = (value) => (match) => text(value).replace(/\\(?:g<(\w+)>|([1-9]\d?)|(.))/gs, (all, name, number, other) => {
	if (other !== undefined)
		return other === "n" ? "\n" : other === "\\" ? "\\" : fail(`the replacement ${repr(value)} is not supported`);
	const group = number ?? name, part = /^\d+$/.test(group) ? match[group] : match.groups?.[group];
	return part ?? "";
});

class Match {
	constructor(found) {
		this.found = found;
	}
}

export const MATCH = {
	group: ({ found: match }, group = 0) => {
		const one = typeof group === "number" ? match[group] : match.groups?.[group];
		return group in match || match.groups && group in match.groups ? one ?? null : fail(`there is no group ${repr(group)}`);
	},
	groups: ({ found: match }) => Tuple.from(match.slice(1), (one) => one ?? null),
};
export { Match };

const first = (pattern, value, fits) => {
	const match = pythonRegex(text(pattern)).exec(text(value));
	return match && fits(match) ? new Match(match) : null;
};

export const RE = {
	sub(pattern, by, value) {
		const change = typeof by === "string" ? replacement(by) : (match) => text(by([new Match(match)]));
		return sized(text(value).replace(pythonRegex(text(pattern)), (...args) => {
			const named = typeof args.at(-1) === "object" ? args.pop() : undefined;
			return change(Object.assign(args.slice(0, -2), { groups: named }));
		}));
	},
	findall: (pattern, value) => [...text(value).matchAll(pythonRegex(text(pattern)))].map((match) =>
		match.length === 1 ? match[0] : match.length === 2 ? match[1] ?? "" : Tuple.from(match.slice(1), (one) => one ?? "")),
	search: (pattern, value) => first(pattern, value, () => true),
	match: (pattern, value) => first(`(?:${text(pattern)})`, value, ({ index }) => index === 0),
};
