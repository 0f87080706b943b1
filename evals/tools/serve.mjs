#!/usr/bin/env node
// serve.mjs: an OpenAI-compatible server of tools/train's models
//
//   serve.mjs [--port N] [NAME.onnx...]
//   serve.mjs [--port N] --registry URL --model ORG/NAME@REVISION
//
// A request's "model" is the NAME of a file, or NAME@REVISION of the registry at
// URL, whose files are pulled into a folder first.  REGISTRY_TOKEN is the
// registry's token.  In a GPU job it names the folder as a checkpoint, so that
// the agent reports the digest of what is served.  It prints its port.
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { downloadFile, listFiles } from "@huggingface/hub";
import ort from "onnxruntime-node";

const { values: options, positionals: files } = parseArgs({ allowPositionals: true,
	options: { port: { type: "string" }, registry: { type: "string" }, model: { type: "string" } } });
const models = new Map(await Promise.all(options.model ? [pulled(options.model)]
	: files.map(async (file) => [basename(file, ".onnx"), await load(readFileSync(file))])));

function load(bytes) {
	return ort.InferenceSession.create(bytes);
}

// The files of a version, in a folder that has no others.
async function pull(repo, revision) {
	const folder = mkdtempSync(join(process.cwd(), "model-"));
	const at = { repo: { type: "model", name: repo }, revision, hubUrl: options.registry,
		accessToken: process.env.REGISTRY_TOKEN };

	for await (const { type, path } of listFiles({ ...at, recursive: true })) {
		if (type !== "file")
			continue;
		mkdirSync(dirname(join(folder, path)), { recursive: true });
		writeFileSync(join(folder, path), Buffer.from(await (await downloadFile({ ...at, path })).arrayBuffer()));
	}
	return folder;
}

async function pulled(name) {
	const [, repo, revision] = /^([^@]+)@([0-9a-f]+)$/.exec(name);
	const folder = await pull(repo, revision);
	const model = await load(readFileSync(join(folder, "model.onnx")));

	if (process.env.GPUCREDIT_FD)
		writeSync(Number(process.env.GPUCREDIT_FD), `checkpoint 1 ${folder}\n`);
	return [`${basename(repo)}@${revision}`, model];
}

const words = (text) => text.toLowerCase().match(/[a-z0-9]+/g) ?? [""];

async function answer(request) {
	const { model, messages } = JSON.parse(request);
	const session = models.get(model);

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
