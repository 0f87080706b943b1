// openai_evals.mjs: cases from OpenAI evals' samples
import { basename } from "node:path";
import { readJsonLines } from "./lines.mjs";

const quote = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

// How a response meets one of the ideals, as the evals of that name decide it.
const patterns = {
	match: (any) => `^(?:${any})`,
	includes: (any) => `(?:${any})`,
};

export function fromOpenAIEvals(file, { task = "default", match = "match" } = {}) {
	if (!Object.hasOwn(patterns, match))
		throw new Error(`--match "${match}" is not supported; there are: ${Object.keys(patterns).join(", ")}`);
	return readJsonLines(file).map(({ line, value: { input, ideal, ...others } }) => {
		const where = `line ${line}`;
		const [unknown] = Object.keys(others);
		const ideals = [ideal].flat();
		if (unknown)
			throw new Error(`${where}: "${unknown}" is not supported`);
		if (ideals.length === 0 || !ideals.every((one) => typeof one === "string" && one !== ""))
			throw new Error(`${where}: "ideal" is no text, and no list of texts`);
		return {
			name: String(line), task, source: `${basename(file)}: ${where}`,
			input: { messages: messagesOf(where, input) },
			expected: ideal,
			checks: [{ type: "regex", value: patterns[match](ideals.map(quote).join("|")) }],
		};
	});
}

function messagesOf(where, input) {
	if (typeof input === "string")
		return [{ role: "user", content: input }];
	if (!Array.isArray(input) || !input.every(({ role, content } = {}) => role && typeof content === "string"))
		throw new Error(`${where}: "input" is no text, and no list of messages`);
	return input.map(({ role, content }) => ({ role, content }));
}
