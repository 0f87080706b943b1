// push.mjs HUB TOKEN MODEL FILE VISIBILITY [PARENT]: pushes a file by Hugging
// Face's client, and pulls it again.  PARENT is the number of a version of acme.
import { createRepo, uploadFiles, downloadFile } from "@huggingface/hub";
import * as fs from "node:fs";
import { readFileSync } from "node:fs";

const [hubUrl, accessToken, name, file, visibility, parent] = process.argv.slice(2);
const at = { repo: { type: "model", name }, accessToken, hubUrl };

// What a model was made from stands in the commit's header.
const withParent = (url, options) => {
	if (parent && /\/commit\//.test(url)) {
		const [head, ...rest] = options.body.split("\n");
		const line = JSON.parse(head);
		line.value.parents = [{ org: "acme", version: +parent, kind: "fine_tune" }];
		options = { ...options, body: [JSON.stringify(line), ...rest].join("\n") };
	}
	return fetch(url, options);
};

await createRepo({ ...at, visibility });
let start = Date.now();
await uploadFiles({ ...at, commitTitle: "weights", fetch: withParent, files: [
	{ path: "model.safetensors", content: fs.openAsBlob ? await fs.openAsBlob(file) : new Blob([readFileSync(file)]) },
	{ path: "README.md", content: new Blob([`# ${name}\n`]) } ] });
console.log(`${name}: pushed in ${((Date.now() - start) / 1000).toFixed(1)} s`);
start = Date.now();
const back = Buffer.from(await (await downloadFile({ ...at, path: "model.safetensors" })).arrayBuffer());
if (!back.equals(readFileSync(file))) throw new Error(`${name} is not what was pushed`);
console.log(`${name}: pulled in ${((Date.now() - start) / 1000).toFixed(1)} s, the same ${back.length} bytes`);
