// stub.mjs: an OpenAI-compatible server with faults to order, for tests
//
//   node stub.mjs '{"latency": 0, "rps": 0, "usage": true, "faults": ["429", ...], "port": 0}'
//
// The model answers with what the user said, without a leading "Say ".  A
// judge, which is asked for a score, gives what stands after "quality:" in
// what it reads.  Each fault applies to one request, in their order:
//
//   429, 500, ...    that status; "429:2" with Retry-After: 2
//   cut              half of the body, then the connection ends
//   garbage          a body that is no JSON
//   null             the body "null"
//   huge             an answer of more than 4 MiB
//   silent           no answer at all
//   nousage          an answer without "usage"
//   length           an answer that was cut off
//   tools, refusal   a call of a tool, or a refusal, instead of a text
//   parts            an answer in two pieces
//   redirect:URL     307 to there
//   nologprobs       no logprobs, of /v1/completions
//   novector         a vector too few, of /v1/embeddings
//   none             an answer
//
// /v1/completions with "echo" scores the words of a prompt: each has the logprob -0.5
// for each of its characters, and one with "good" in it is the likeliest word.  With
// "bos" a token for the beginning comes first, without it the first word has no
// logprob.
//
// With "reasoning" it refuses max_tokens and any temperature but 1, as such models
// do.  With rps it allows so many requests a second, and answers 429 to others.
// GET /stats has the requests so far.  It prints its port.
import { createServer } from "node:http";

const options = JSON.parse(process.argv[2] ?? "{}");
const faults = options.faults ?? [];
const stats = { requests: 0, answered: 0, limited: 0, prompts: {}, authorization: null };
let window = { second: 0, n: 0 };

function limited() {
	const second = Math.floor(Date.now() / 1000);
	window = window.second === second ? { second, n: window.n + 1 } : { second, n: 1 };
	return options.rps && window.n > options.rps;
}

function answerTo(messages) {
	const text = messages.map(({ content }) => content).join("\n");
	const score = Number(/quality:(\d)/.exec(text)?.[1] ?? 1);

	if (/whole number from 1/.test(text))
		return options.verdict ?? JSON.stringify({ score, reason: "as it says" });
	if (/"category"/.test(text))
		return JSON.stringify({ category: score >= 4 ? "C" : "D", reason: "as it says" });
	if (/"?pass"?\s*:|pass: boolean/.test(text))
		return JSON.stringify({ reason: "as it says", pass: score >= 4, score: (score - 1) / 4 });
	return messages.at(-1).content.replace(/^Say /, "");
}

function reply(response, content, fault, functions) {
	const message = functions ? { content: null, tool_calls: [{ id: "c1", type: "function",
		function: { name: functions[0].function.name, arguments: JSON.stringify({ text: content }) } }] } : {
		tools: { content: null, tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] },
		refusal: { content: null, refusal: "I cannot help with that." },
		parts: { content: [{ type: "text", text: content.slice(0, 2) }, { type: "text", text: content.slice(2) }] },
	}[fault] ?? { content };
	const body = JSON.stringify({
		id: "stub", object: "chat.completion", model: "stub",
		choices: [{ index: 0, finish_reason: fault === "length" || content.endsWith("(cut off)") ? "length" : "stop",
			message: { role: "assistant", ...message } }],
		...fault === "nousage" || options.usage === false ? {}
			: { usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } } });

	response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
	if (fault === "cut") {
		response.write(body.slice(0, body.length / 2));
		setTimeout(() => response.destroy(), 20);
	} else
		response.end(body);
	stats.answered++;
}

function scored(prompt, fault) {
	const tokens = [...options.bos ? ["<s>"] : [], ...prompt.match(/\s?\S+|\s+/g) ?? [], " next"];
	const token_logprobs = tokens.map((token, i) => i === 0 ? null : -0.5 * token.trim().length);
	const top_logprobs = tokens.map((token, i) => i === 0 ? null : { [token.includes("good") ? token : "other"]: token.includes("good") ? token_logprobs[i] : 0 });
	return JSON.stringify({ object: "text_completion", choices: [{ index: 0, text: `${prompt} next`, finish_reason: "length",
		logprobs: fault === "nologprobs" ? null : { tokens, token_logprobs, top_logprobs } }],
		usage: { prompt_tokens: tokens.length - 1, completion_tokens: 1, total_tokens: tokens.length } });
}

// Vectors of texts: how often each letter of the alphabet is in them.  "z" counts
// below zero, so that some texts point away from others.
function embedded(texts, fault) {
	const vector = (text) => Array.from("abcdefghijklmnopqrstuvwxyz", (letter) =>
		(text.toLowerCase().split(letter).length - 1) * (letter === "z" ? -1 : 1));
	const data = [texts].flat().map((text, index) => ({ object: "embedding", index, embedding: vector(text) }));

	if (fault === "novector")
		data.pop();
	return JSON.stringify({ object: "list", model: "stub", data: data.reverse(),
		...fault === "nousage" || options.usage === false ? {} : { usage: { prompt_tokens: 3 * data.length, total_tokens: 3 * data.length } } });
}

const server = createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", () => {
		if (request.url === "/stats")
			return response.end(JSON.stringify(stats));
		const body = JSON.parse(Buffer.concat(parts));
		const { messages } = body;
		stats.last = { url: request.url, headers: request.headers, body };
		const fault = faults[stats.requests++] ?? "none";
		stats.authorization = request.headers.authorization ?? null;
		const content = messages && answerTo(messages), asked = messages?.at(-1).content ?? body.prompt;
		const [kind, ...rest] = fault.split(":");
		if (limited()) {
			stats.limited++;
			return response.writeHead(429, { "retry-after": "1" }).end("{}");
		}
		const refused = options.reasoning && ("max_tokens" in body ? ["unsupported_parameter", "max_tokens"]
			: (body.temperature ?? 1) !== 1 && ["unsupported_value", "temperature"]);
		if (refused)
			return response.writeHead(400).end(JSON.stringify({ error: { message: asked, code: refused[0], param: refused[1] } }));
		stats.prompts[asked] = (stats.prompts[asked] ?? 0) + 1;
		if (kind === "silent")
			return null;
		if (kind === "garbage")
			return response.end("<html>");
		if (kind === "null")
			return response.end("null");
		if (kind === "huge")
			return reply(response, "x".repeat(5 * 1024 * 1024), fault);
		if (kind === "redirect")
			return response.writeHead(307, { location: rest.join(":") }).end();
		if (/^\d+$/.test(kind))
			return response.writeHead(Number(kind), rest.length ? { "retry-after": rest[0] } : {}).end("{}");
		if (body.input)
			return response.end(embedded(body.input, kind));
		if (body.echo)
			return response.end(scored(body.prompt, kind));
		return options.latency ? setTimeout(reply, options.latency, response, content, fault, body.tools)
			: reply(response, content, fault, body.tools);
	});
});
server.listen(options.port ?? 0, "127.0.0.1", () => console.log(server.address().port));
