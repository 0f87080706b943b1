#!/usr/bin/env node
// serve.mjs: an OpenAI-compatible server of tools/train's models
//
//   serve.mjs [--port N] [--registry URL] [NAME.onnx...]
//
// A request's "model" is the NAME of a file, or "NAME@REVISION" of the registry
// at URL (its address and the organisation), which is pulled when it is first
// asked for.  REGISTRY_TOKEN is the registry's token.  It prints its port.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import ort from "onnxruntime-node";

const { values: options, positionals: files } = parseArgs({ allowPositionals: true,
	options: { port: { type: "string" }, registry: { type: "string" } } });
const models = new Map(files.map((file) => [basename(file, ".onnx"), load(readFileSync(file))]));

function load(bytes) {
	return ort.InferenceSession.create(bytes);
}

async function pull(name, revision) {
	const url = `${options.registry}/${encodeURIComponent(name)}/resolve/${encodeURIComponent(revision)}/model.onnx`;
	const token = process.env.REGISTRY_TOKEN;
	const answer = await fetch(url, token ? { headers: { authorization: `Bearer ${token}` } } : {});

	if (!answer.ok)
		throw new Error(`the registry answers ${answer.status} to ${name}@${revision}`);
	return load(Buffer.from(await answer.arrayBuffer()));
}

function find(name) {
	const [, model, revision] = /^([^@]+)@([0-9a-f]+)$/.exec(name) ?? [];

	if (!models.has(name) && revision && options.registry) {
		const pulled = pull(model, revision);
		pulled.catch(() => models.delete(name));	// another request tries again
		models.set(name, pulled);
	}
	return models.get(name);
}

const words = (text) => text.toLowerCase().match(/[a-z0-9]+/g) ?? [""];

async function answer(request) {
	const { model, messages } = JSON.parse(request);
	const session = await find(model);

	if (!session)
		return { status: 404, body: { error: { message: `there is no model "${model}"` } } };
	const read = words(messages.map(({ content }) => content).join("\n"));
	const { answer } = await session.run({ words: new ort.Tensor("string", read, [read.length]) });
	const [content] = answer.data;
	const written = words(content).length;
	return { status: 200, body: {
		object: "chat.completion", model,
		choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
		usage: { prompt_tokens: read.length, completion_tokens: written, total_tokens: read.length + written } } };
}

const server = createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", async () => {
		const { status, body } = await answer(Buffer.concat(parts)).catch((error) =>
			({ status: 500, body: { error: { message: error.message } } }));
		response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
	});
});
server.listen(Number(options.port ?? 0), "127.0.0.1", () => console.log(server.address().port));
