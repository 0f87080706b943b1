// python_regex.test.mjs: patterns find what Python's re finds, or are refused
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { pythonRegex } from "../../cli/lib/python_regex.mjs";

const ASK = `
import json, re, sys, warnings
warnings.simplefilter("ignore")
def found(pattern, text):
    try:
        return [[m.group(), *(g or "" for g in m.groups())] for m in re.finditer(pattern, text)]
    except (re.error, OverflowError, RecursionError):
        return None
print(json.dumps([found(p, t) for p, t in json.load(sys.stdin)]))`;

// What Python finds; null for a pattern that it refuses.
const inPython = (pairs) => JSON.parse(execFileSync("/usr/bin/python3", ["-c", ASK],
	{ input: JSON.stringify(pairs), maxBuffer: 64 * 1024 * 1024 }));

function inJavaScript(pattern, text) {
	let regex;

	try {
		regex = pythonRegex(pattern);
	} catch (error) {
		assert.match(error.message, /is not supported/);
		return null;
	}
	return [...text.matchAll(regex)].map((match) => [...match].map((group) => group ?? ""));
}

// After an empty match Python looks at the same place for one that is not empty,
// and JavaScript goes on behind it.
const isMixed = (found) => found?.some(([all]) => all === "") && found.some(([all]) => all !== "");

const TEXTS = ["", "a", "ab\n", "a\nb\n", "The answer is (B).\n#### -1,234.5", "caf\u00e9 \u00c9t\u00e9_1", "x = {,2} aaa", "[^]] a]b[c",
	"\u0664\u0662 12 \u00bd", "tab\tvt\u000b nbsp\u00a0 nel\u0085 sep\u001c", "line\u2028sep\r\nnext", "'a' \"b\" 'c\" aa abab", "\ud83d\ude00 ok", "A.B,C;D"];

test("patterns of tasks find what Python finds", () => {
	const patterns = ["#### (\\-?[0-9\\.\\,]+)", "(-?[$0-9.,]{2,})|(-?[0-9]+)", "(?i)answer is \\(?([A-D])\\)?", "\\w+", "\\W+", "\\d+", "\\D+", "\\s+",
		"\\S+", "a{,2}", "a{2,}", "a{1}", "x = {,2}", "{", "a{", "a{x}", "[^]]+", "[]a]+", "[^\\W_]+", "[\\W\\d]+", "[\\s\\S]", "[a-c-]", "[\\]\\\\]", "b$",
		"(?m)^.$", "(?m)$", "$", "^", "\\Aa", "b\\Z", "\\bA\\b", "\\B.", "(?s).+", ".+", "(['\"])(.*?)\\1", "(?P<q>a)(?P=q)", "(?x) a  b # c\n", "(?a)\\w+",
		"(?#comment)a", "(?<=a)b", "(?<!a)b", "a(?=b)", "a(?!b)", "(?:ab)+", "(a)|b", "(a|b)c?", "\\x61", "\\u0061", "\\141", "\\.", "\\n", "A.B", "[A-Z]\\.", "\ud83d\ude00", "\\U0001F600"];
	const pairs = patterns.flatMap((pattern) => TEXTS.map((text) => [pattern, text]));
	const expected = inPython(pairs);

	pairs.forEach(([pattern, text], i) =>
		assert.deepEqual(inJavaScript(pattern, text), expected[i], `${pattern} on ${JSON.stringify(text)}`));
});

test("what Python refuses, and what JavaScript cannot say, is refused", () => {
	for (const pattern of ["(", ")", "[a", "a**", "a++", "*a", "\\q", "[z-a]", "[\\w-z]", "(?P<a>x)(?P<a>y)", "(?P=none)", "\\1", "(a\\1)", "a{3,2}",
		"(?i:a)", "(?>a)", "(a)?\\1", "(?:(a)|b)+", "(?(1)a|b)", "\\N{DIGIT ONE}", "(?L)a", "(?z)a", "\\", "[\\", "^*"])
		assert.throws(() => pythonRegex(pattern), /is not supported: /, pattern);
});

test("random patterns find what Python finds, or are refused", () => {
	const pieces = ["a", "b", "\u00e9", "1", " ", "\\w", "\\d", "\\s", "\\W", "\\b", "\\B", ".", "^", "$", "|", "(", ")", "(?:", "(?=", "(?!", "[", "]", "[^", "-", "*", "+",
		"?", "{,2}", "{1,2}", "{2}", "{", "}", "\\1", "\\n", "\\Z", ","];
	let seed = 8;
	const random = (n) => (seed = seed * 48271 % 2147483647) % n;
	const pairs = Array.from({ length: 2000 }, () => [Array.from({ length: 1 + random(8) }, () => pieces[random(pieces.length)]).join(""),
		Array.from({ length: random(9) }, () => ["a", "b", "\u00e9", "1", " ", "\n", ","][random(7)]).join("")]);
	const expected = inPython(pairs);
	let compared = 0;

	pairs.forEach(([pattern, text], i) => {
		const found = inJavaScript(pattern, text);
		if (found === null || isMixed(expected[i]))
			return;
		compared++;
		assert.deepEqual(found, expected[i], `${pattern} on ${JSON.stringify(text)}`);
	});
	assert.ok(compared > 300, `${compared} were compared`);
	const valid = expected.filter((found) => found !== null).length;
	assert.ok(compared > valid * 0.8, `${compared} of ${valid} are supported`);
});
