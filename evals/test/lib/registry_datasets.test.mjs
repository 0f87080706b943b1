// registry_datasets.test.mjs: a registry that answers with too much, with nonsense or
// from elsewhere
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import test from "node:test";
import { RegistryDatasets } from "../../cli/lib/registry_datasets.mjs";

const OID = "0123456789abcdef0123456789abcdef01234567";
const task = { dataset_path: "acme/sums" };

// Calls a function with the address of a server that answers as "answer" says.
async function served(answer, use) {
	const server = createServer(answer);

	await new Promise((done) => server.listen(0, "127.0.0.1", done));
	try {
		return await use(`http://127.0.0.1:${server.address().port}`);
	} finally {
		server.closeAllConnections();
		server.close();
	}
}

const info = (...paths) => JSON.stringify({ sha: OID, siblings: paths.map((rfilename) => ({ rfilename })) });
const read = (split = "test") => (datasets) => readFileSync(datasets.find(task, split).path, "utf8");

test("files come to a folder of their own, under no name of the registry's, which is gone afterwards", async () => {
	const answer = ({ url }, response) => response.end(url.startsWith("/api/") ? info("test.jsonl", "../../evil.jsonl", "/etc/x.jsonl") : url);

	await served(answer, async (url) => {
		const datasets = new RegistryDatasets(`${url}/`);
		let folder;
		assert.equal(await datasets.reading((all) => {
			folder = all.folder;
			return read()(all);
		}), `/datasets/acme/sums/resolve/${OID}/test.jsonl`);
		assert.equal(existsSync(folder), false);
		await assert.rejects(datasets.reading((all) => all.find(task, "dev")), /no file of split "dev", dev\.jsonl; it has test\.jsonl/);
		assert.equal(existsSync(datasets.folder), false);
		const escaped = await datasets.reading((all) => all.find(task, "../../evil").path.startsWith(all.folder));
		assert.equal(escaped, true);
	});
});

test("the token stays with the registry, though a file may lie elsewhere", async () => {
	const seen = [];

	await served((request, response) => {
		seen.push(request.headers.authorization);
		response.end("elsewhere");
	}, (elsewhere) => served(({ url, headers }, response) => {
		seen.push(headers.authorization);
		if (url.startsWith("/api/"))
			return response.end(info("test.jsonl"));
		return response.writeHead(302, { location: elsewhere.replace("127.0.0.1", "localhost") }).end();
	}, async (url) => {
		assert.equal(await new RegistryDatasets(url, { token: "secret" }).reading(read()), "elsewhere");
	}));
	assert.deepEqual(seen, ["Bearer secret", "Bearer secret", undefined]);
});

test("a registry that sends too much, breaks off, or answers nonsense is refused", async () => {
	const cases = [
		[info("test.jsonl"), "x".repeat(1001), /more than the 1000 bytes/],
		["{}", "", /has no commit/],
		[JSON.stringify({ sha: "../x", siblings: [] }), "", /has no commit/],
		["<html>", "", /has no commit/],
	];

	for (const [about, body, message] of cases)
		await served(({ url }, response) => response.end(url.startsWith("/api/") ? about : body), (url) =>
			assert.rejects(new RegistryDatasets(url, { most: 1000 }).reading(read()), message));
	await served(({ url }, response) => {
		if (url.startsWith("/api/"))
			return response.end(info("test.jsonl"));
		response.writeHead(200, { "content-length": 100 });
		response.write("half");
		return setTimeout(() => response.destroy(), 20);
	}, (url) => assert.rejects(new RegistryDatasets(url).reading(read())));
	await served((_, response) => response.writeHead(500).end(), (url) =>
		assert.rejects(new RegistryDatasets(url).reading(read()), /the registry answers 500 to dataset "acme\/sums"$/));
});

test("the limit of bytes is one of all files together", async () => {
	await served(({ url }, response) => response.end(url.startsWith("/api/") ? info("a.jsonl", "b.jsonl") : "x".repeat(600)), (url) =>
		assert.rejects(new RegistryDatasets(url, { most: 1000 }).reading((all) => [read("a")(all), read("b")(all)]), /more than the 400 bytes/));
});

test("an address is one of HTTP, without user, query or fragment", () => {
	for (const url of ["registry", "ftp://x", "http://a:b@x", "http://x?y", "http://x#y", "http://", ""])
		assert.throws(() => new RegistryDatasets(url), /--registry is an address/, url);
});
