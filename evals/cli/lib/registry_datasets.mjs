// registry_datasets.mjs: the documents of lm-eval's tasks from datasets of the
// registry
//
// A dataset has a file SPLIT.jsonl for each split, in a folder of its configuration's
// name where it has several.  A task's files are pulled when they are asked for, all
// of one commit.  Readers are synchronous: they throw Missing, and begin again when
// what was missing is there.
import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";

const MOST_BYTES = 512 * 1024 * 1024;		// of all files; a reader has one in memory
const MOST_LIST = 64 * 1024 * 1024;
const LONGEST = 600_000;
const LISTED = 10;

// What has to be loaded before a reader can go on.
class Missing extends Error {
	constructor(load) {
		super("a file of a dataset is not loaded");
		this.load = load;
	}
}

export class RegistryDatasets {
	// url: the registry; dataset: ORG/NAME@REVISION, if another one than the task names
	constructor(url, { dataset, token, most = MOST_BYTES } = {}) {
		if (!/^https?:\/\/[^/@?#\s]+(\/[^?#\s]*)?$/.test(url))
			throw new Error("--registry is an address that begins with http:// or https://, without user, query or fragment");
		Object.assign(this, { url: url.replace(/\/+$/, ""), dataset, left: most, commits: new Map(), files: new Map() });
		this.headers = token ? { authorization: `Bearer ${token}` } : {};
	}

	// Calls a reader until nothing is missing any more, and deletes what was pulled.
	async reading(read) {
		this.folder = mkdtempSync(join(tmpdir(), "gpucredit-eval-"));
		try {
			for (;;)
				try {
					return read(this);
				} catch (error) {
					if (!(error instanceof Missing))
						throw error;
					await error.load();
				}
		} finally {
			rmSync(this.folder, { recursive: true, force: true });
		}
	}

	// The file of a task's split: where it lies, and what to call it.
	find({ dataset_path: named, dataset_name: configuration }, split) {
		const wanted = this.dataset ?? String(named);
		const [, name, revision = "main"] = /^([\w.-]+\/[\w.-]+)(?:@([\w./-]{1,200}))?$/.exec(wanted) ?? [];

		if (name === undefined || /(^|\/)\.{1,2}(\/|$)/.test(name))
			throw new Error(`"${wanted}" is no dataset of the registry: name one as ORG/NAME or ORG/NAME@REVISION, with --dataset`);
		const commit = this.commits.get(wanted);
		if (commit === undefined)
			throw new Missing(() => this.loadCommit(wanted, name, revision));
		const tried = [...configuration ? [`${configuration}/${split}.jsonl`] : [], `${split}.jsonl`];
		const path = tried.find((one) => commit.paths.includes(one));
		if (path === undefined)
			throw new Error(`dataset "${name}" has no file of split "${split}", ${tried.join(" or ")}; it has ${commit.paths.slice(0, LISTED).join(", ")
				|| "none"}${commit.paths.length > LISTED ? ", .." : ""}`);
		const label = `${name}@${commit.oid.slice(0, 12)}/${path}`;
		if (!this.files.has(label))
			throw new Missing(() => this.loadFile(label, name, commit.oid, path));
		return { path: this.files.get(label), label };
	}

	async loadCommit(wanted, name, revision) {
		const response = await this.get(`/api/datasets/${name}/revision/${encodeURIComponent(revision)}`, `dataset "${wanted}"`);
		const parts = [];

		for await (const part of limited(response, MOST_LIST, "the list of files is too long"))
			parts.push(part);
		const { sha, siblings } = parsed(Buffer.concat(parts)) ?? {};
		if (!/^[0-9a-f]{40}$/.test(sha) || !Array.isArray(siblings))
			throw new Error(`the registry's answer about dataset "${wanted}" has no commit`);
		this.commits.set(wanted, { oid: sha, paths: siblings.map(({ rfilename }) => String(rfilename)) });
	}

	async loadFile(label, name, oid, path) {
		const url = `/datasets/${name}/resolve/${oid}/${path.split("/").map(encodeURIComponent).join("/")}`;
		const file = join(this.folder, String(this.files.size));
		const response = await this.get(url, label);
		const whole = limited(response, this.left, `the files have more than the ${this.left} bytes that are left`);

		await pipeline(whole, new Transform({ transform: (part, _, done) => {
			this.left -= part.length;
			done(null, part);
		} }), createWriteStream(file));
		this.files.set(label, file);
	}

	// The token goes to the registry alone: fetch() leaves it out when it is sent to
	// another host, where the file may lie.
	async get(path, what) {
		let response;

		try {
			response = await fetch(this.url + path, { headers: this.headers, signal: AbortSignal.timeout(LONGEST) });
		} catch (error) {
			throw new Error(`the registry does not answer: ${error.cause?.code ?? error.message}`);
		}
		if (response.ok && response.body)
			return response;
		await response.body?.cancel();
		throw new Error(`the registry answers ${response.status} to ${what}${
			response.status === 401 || response.status === 403 || response.status === 404 ? ": REGISTRY_TOKEN has to be a token that may read it" : ""}`);
	}
}

function parsed(text) {
	try {
		return JSON.parse(text);
	} catch {
		return null;
	}
}

// The body of a response, up to so many bytes.
async function* limited({ body }, most, message) {
	let left = most;

	for await (const part of Readable.fromWeb(body)) {
		left -= part.length;
		if (left < 0)
			throw new Error(message);
		yield part;
	}
}
