// exact_match.mjs: lm-eval's regex filter and its metric exact_match
//
// The check's value is the target; "filter" extracts the answer from the
// response first, and the "ignore" options apply to both.

import { pythonRegex } from "./python_regex.mjs";

const PUNCTUATION = /[!-/:-@[-`{-~]/g;

export function exactMatch(check, output) {
	const cut = cutAt(output, check.until ?? []);
	const answer = check.filter ? extract(check.filter, cut) : cut;

	return normal(answer, check) === normal(String(check.value), check);
}

// A model whose server ignores "stop" answers with more than was asked for.
function cutAt(output, until) {
	const ends = until.map((stop) => output.indexOf(stop)).filter((at) => at >= 0);

	return ends.length ? output.slice(0, Math.min(...ends)) : output;
}

// One of all matches, and of its groups the first that is not empty.
function extract({ pattern, group_select = 0, fallback = "[invalid]" }, output) {
	const found = [...output.matchAll(pythonRegex(pattern))].at(group_select);

	if (!found)
		return fallback;
	if (found.length <= 2)
		return (found.length === 1 ? found[0] : found[1] ?? "").trim();
	return found.slice(1).find((group) => group)?.trim() ?? fallback;
}

function normal(text, check) {
	for (const pattern of check.regexes_to_ignore ?? [])
		text = text.replace(pythonRegex(pattern), "");
	if (check.ignore_case)
		text = text.toLowerCase();
	if (check.ignore_punctuation)
		text = text.replace(PUNCTUATION, "");
	return check.ignore_numbers ? text.replace(/[0-9]/g, "") : text;
}
