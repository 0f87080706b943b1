// python_regex.mjs: Python's regular expressions, as lm-eval's tasks have them
//
// JavaScript reads many of them otherwise: \w and \d know ASCII only, "." and "$"
// know other ends of lines, "{,2}" is a text, and "[]" is an empty class.  So a
// pattern is parsed as Python's re does, and written anew with JavaScript's
// simplest means.  What cannot be written so, or might capture otherwise, is
// refused.
//
// A frame is the group of the pattern that is being read, or all of the pattern.  It
// has the number of the first capture in it, and whether there are alternatives.

// Characters by their numbers, after the backslash, with the number's base.
const NUMBERED = [[/^x([0-9a-fA-F]{2})/, 16], [/^u([0-9a-fA-F]{4})/, 16], [/^U([0-9a-fA-F]{8})/, 16],
	[/^(0[0-7]{0,2})/, 8], [/^([0-3][0-7]{2})/, 8]];
const CONTROLS = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

// What \w, \d and \s match, as the inside of a class, and with the flag "a".
const SETS = { w: "\\p{L}\\p{N}_", d: "\\p{Nd}",
	s: "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000" };
const ASCII = { w: "A-Za-z0-9_", d: "0-9", s: "\\t-\\r " };

export function pythonRegex(pattern) {
	try {
		return new Translation(pattern).regex();
	} catch (error) {
		throw new Error(`regex ${JSON.stringify(pattern)} is not supported: ${error.message}`);
	}
}

const literal = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;

class Translation {
	constructor(pattern) {
		const [, flags = "", rest] = /^(?:\(\?([a-zA-Z]+)\))?(.*)$/s.exec(pattern);

		if (/[^aimsux]/.test(flags))
			throw new Error(`the flags "${flags}" are not known`);
		this.flags = new Set(flags);
		this.sets = this.flags.has("a") ? ASCII : SETS;
		this.rest = rest;
		this.captures = 0;
		this.uncertain = new Set();		// captures that may be unset after a match
		this.references = [];
		this.names = new Map();
		this.open = new Set();			// captures that have not ended
	}

	regex() {
		const text = this.alternatives({ first: 1 });

		if (this.rest)
			throw new Error('a ")" is too many');
		for (const n of this.references)
			if (this.uncertain.has(n))
				throw new Error(`it refers to group ${n}, which may be unset`);
		return new RegExp(text, `gu${this.flags.has("i") ? "i" : ""}`);
	}

	// Removes what an anchored pattern matches from the beginning of the rest, and
	// returns the match; null if there is none.
	next(pattern) {
		const found = pattern.exec(this.rest);

		if (found)
			this.rest = this.rest.slice(found[0].length);
		return found;
	}

	// Translates everything up to the end of a frame, which is its ")".
	alternatives(frame) {
		const parts = [];

		for (let text = ""; ; ) {
			this.skip();
			if (this.rest === "" || this.rest[0] === ")") {
				parts.push(text);
				break;
			}
			if (this.next(/^\|/)) {
				frame.alternates = true;
				parts.push(text);
				text = "";
			} else
				text += this.repeated();
		}
		if (frame.alternates)
			this.mark(frame.first);
		return parts.join("|");
	}

	// Notes that the captures from one on may be unset after a match.
	mark(first) {
		for (let n = first; n <= this.captures; n++)
			this.uncertain.add(n);
	}

	// Removes comments, and the space and comments of a verbose pattern.
	skip() {
		while (this.next(/^\(\?#[^)]*\)/) || this.flags.has("x") && this.next(/^(?:[ \t-\r]+|#[^\n]*)/))
			;
	}

	// Translates one item with its quantifier.
	repeated() {
		const before = this.captures;
		const item = this.item();

		this.skip();
		const found = this.next(/^(?:([*+?])|\{(?!\})(\d*)(?:(,)(\d*))?\})/);
		if (!found)
			return item.text;
		const [, sign, least, comma, most] = found;
		const from = sign ? Number(sign === "+") : Number(least);
		const to = sign ? (sign === "?" ? 1 : Infinity) : comma ? Number(most || Infinity) : from;

		if (item.isAssertion && !item.isGroup)
			throw new Error("an assertion is repeated");
		if (from > to)
			throw new Error("a repetition has its least above its most");
		if (to > 1 && [...this.uncertain].some((n) => n > before && n <= this.captures))
			throw new Error("a repeated group has parts that keep what they captured before");
		if (from === 0)
			this.mark(before + 1);
		const lazy = this.next(/^\?/) ? "?" : "";
		if (this.next(/^(?:\+|[*?]|\{(?!\})\d*(?:,\d*)?\})/))
			throw new Error("a repetition is repeated, or possessive");
		return `${item.text}{${from},${to === Infinity ? "" : to}}${lazy}`;
	}

	item() {
		if (/^\{(?!\})\d*(?:,\d*)?\}/.test(this.rest))
			throw new Error("nothing is repeated");
		if (this.next(/^\(/))
			return this.group();
		if (this.next(/^\[/))
			return { text: this.characterClass() };
		if (this.next(/^\\/))
			return this.escape();
		const [character] = this.next(/^[^]/u);
		switch (character) {
			case ".":
				return { text: this.flags.has("s") ? "[^]" : "[^\\n]" };
			case "^":
				return { text: this.flags.has("m") ? "(?<=\\n|^)" : "^", isAssertion: true };
			case "$":
				return { text: this.flags.has("m") ? "(?=\\n|$)" : "(?=\\n?$)", isAssertion: true };
			case "*": case "+": case "?":
				throw new Error("nothing is repeated");
			default:
				return { text: literal(character) };
		}
	}

	group() {
		const named = this.next(/^\?P=([A-Za-z_]\w*)\)/);
		if (named)
			return { text: this.reference(this.names.get(named[1]), named[1]) };
		const [, assertion, name] = this.next(/^(?:\?(?:(:|=|!|<=|<!)|P<([A-Za-z_]\w*)>))?/);
		const first = this.captures + 1;
		if (this.rest[0] === "?")
			throw new Error(`"(${this.rest.slice(0, 3)}" is not known`);
		if (name && this.names.has(name))
			throw new Error(`two groups are named "${name}"`);
		if (!assertion)
			this.open.add(++this.captures);
		const inside = this.alternatives({ first: assertion ? first : first + 1 });
		if (!this.next(/^\)/))
			throw new Error('a ")" is missing');
		this.open.delete(first);
		if (name)
			this.names.set(name, first);
		if (/!/.test(assertion ?? ""))
			this.mark(first);
		return { text: `(${assertion ? `?${assertion}` : ""}${inside})`, isGroup: true,
			isAssertion: /[=!]/.test(assertion ?? "") };
	}

	// Translates what stands after a backslash, outside a class.
	escape() {
		const word = `[${this.sets.w}]`;
		const [kind] = this.next(/^[AZbBwWdDsS]/) ?? [];

		switch (kind) {
			case undefined: break;
			case "A": return { text: "^", isAssertion: true };
			case "Z": return { text: "$", isAssertion: true };
			case "b": return { text: `(?:(?<=${word})(?!${word})|(?<!${word})(?=${word}))`, isAssertion: true };
			case "B": return { text: `(?!^$)(?:(?<=${word})(?=${word})|(?<!${word})(?!${word}))`, isAssertion: true };
			default: {
				const set = this.sets[kind.toLowerCase()];
				return { text: kind === kind.toLowerCase() ? `[${set}]` : `[^${set}]` };
			}
		}
		const reference = !/^(?:0|[0-3][0-7]{2})/.test(this.rest) && this.next(/^[1-9]\d?/);
		if (!reference)
			return { text: literal(this.character()) };
		return { text: this.reference(Number(reference[0]), reference[0]) };
	}

	// Translates a reference to a group.  Where the group is unset, JavaScript matches
	// the empty text, and Python nothing.
	reference(n, name) {
		if (!(n <= this.captures) || this.open.has(n))
			throw new Error(`it has no group ${name} before`);
		this.references.push(n);
		return `(?:\\${n})`;
	}

	// The character that an escape stands for.
	character() {
		for (const [pattern, base] of NUMBERED) {
			const found = this.next(pattern);
			const code = found && parseInt(found[1], base);

			if (found && (code > 0x10ffff || code >= 0xd800 && code <= 0xdfff))
				throw new Error("it has no such character");
			if (found)
				return String.fromCodePoint(code);
		}
		const [one] = this.next(/^[^]/u) ?? [""];
		if (Object.hasOwn(CONTROLS, one))
			return String.fromCodePoint(CONTROLS[one]);
		if (/^[A-Za-z0-9]?$/.test(one))
			throw new Error(`"\\${one}" is not known`);
		return one;
	}

	// Translates a class.  \W, \D and \S in it become classes of their own beside it.
	characterClass() {
		const inverse = this.next(/^\^/) !== null;
		const others = [];
		let inside = "";

		for (let n = 0; n === 0 || !this.next(/^\]/); n++) {
			const from = this.member(others);
			const isRange = /^-[^\]]/.test(this.rest);

			if (!isRange) {
				inside += from;
				continue;
			}
			this.next(/^-/);
			const to = this.member(others);
			const codes = [from, to].map((text) => /^\\u\{([0-9a-f]+)\}$/.exec(text)?.[1]);
			if (codes.some((code) => code === undefined))
				throw new Error("a range has an end that is no character");
			if (parseInt(codes[0], 16) > parseInt(codes[1], 16))
				throw new Error("a range has its ends the wrong way round");
			inside += `${from}-${to}`;
		}
		const all = [...inside ? [`[${inside}]`] : [], ...others.map((set) => `[^${set}]`)];
		if (inverse)
			return others.length ? `(?:(?!${all.join("|")})[^])` : `[^${inside}]`;
		return all.length === 1 ? all[0] : `(?:${all.join("|")})`;
	}

	// One member of a class, as it is written within a class; "" for what is a class
	// of its own.
	member(others) {
		if (this.rest === "")
			throw new Error('a "]" is missing');
		if (!this.next(/^\\/))
			return literal(this.next(/^[^]/u)[0]);
		const [kind] = this.next(/^[wWdDsS]/) ?? [];
		if (!kind)
			return literal(this.character());
		const set = this.sets[kind.toLowerCase()];
		if (kind === kind.toLowerCase())
			return set;
		others.push(set);
		return "";
	}
}
