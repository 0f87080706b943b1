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
//   redirect:URL     307 to there
//   none             an answer
//
// With rps it allows so many requests a second, and answers 429 to others.
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
	if (/"?pass"?\s*:|pass: boolean/.test(text))
		return JSON.stringify({ reason: "as it says", pass: score >= 4, score: (score - 1) / 4 });
	return messages.at(-1).content.replace(/^Say /, "");
}

function reply(response, content, fault) {
	const body = JSON.stringify({
		id: "stub", object: "chat.completion", model: "stub",
		choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
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

const server = createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", () => {
		if (request.url === "/stats")
			return response.end(JSON.stringify(stats));
		const { messages } = JSON.parse(Buffer.concat(parts));
		const fault = faults[stats.requests++] ?? "none";
		stats.authorization = request.headers.authorization ?? null;
		const content = answerTo(messages), asked = messages.at(-1).content;
		const [kind, ...rest] = fault.split(":");
		if (limited()) {
			stats.limited++;
			return response.writeHead(429, { "retry-after": "1" }).end("{}");
		}
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
		return options.latency ? setTimeout(reply, options.latency, response, content, fault)
			: reply(response, content, fault);
	});
});
server.listen(options.port ?? 0, "127.0.0.1", () => console.log(server.address().port));
