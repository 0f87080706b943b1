// push.mjs HUB TOKEN MODEL FILE: pushes a file as MODEL's model.onnx by Hugging
// Face's client, and prints the commit
import { readFileSync } from "node:fs";
import { createRepo, repoExists, uploadFiles } from "@huggingface/hub";

const [hubUrl, accessToken, name, file] = process.argv.slice(2);
const at = { repo: { type: "model", name }, accessToken, hubUrl };

if (!await repoExists(at))
	await createRepo({ ...at, visibility: "private" });
const { commit } = await uploadFiles({ ...at, commitTitle: "weights",
	files: [{ path: "model.onnx", content: new Blob([readFileSync(file)]) }] });
console.log(commit.oid);
