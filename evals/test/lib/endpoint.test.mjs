// endpoint.test.mjs: what the client makes of an endpoint's faults
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chat, Lost, Refused, retryAfter, scoreText } from "../../cli/lib/endpoint.mjs";
import { completions } from "../../cli/lib/worker.mjs";

async function withStub(options, use) {
	const stub = spawn(process.execPath, [new URL("stub.mjs", import.meta.url).pathname, JSON.stringify(options)],
		{ stdio: ["ignore", "pipe", "inherit"] });
	try {
		const [port] = await once(stub.stdout, "data");
		const origin = `http://127.0.0.1:${Number(port)}`;
		const call = (more = {}) => chat({ url: `${origin}/v1/chat/completions`, deadline: Date.now() + 20_000,
			body: { model: "m", messages: [{ role: "user", content: "hello" }] }, ...more });
		const stats = async () => (await fetch(`${origin}/stats`)).json();
		await use({ call, stats, origin });
	} finally {
		stub.kill();
	}
}

const scores = (origin, context, continuation, model = "m") => scoreText({ url: `${origin}/v1/completions`, deadline: Date.now() + 20_000,
	body: { model, seed: 1 }, context, continuation });

test("a text is scored by the tokens of its continuation", () => withStub({}, async ({ stats, origin }) => {
	const { latencyMs, ...score } = await scores(origin, "The sky is", " very good");
	assert.deepEqual(score, { tokens: [" very", " good"], logprobs: [-2, -2], greedy: false, usage: { prompt_tokens: 5, completion_tokens: 1 } });
	assert.deepEqual((await stats()).last.body, { model: "m", seed: 1, prompt: "The sky is very good", max_tokens: 1, temperature: 0, logprobs: 1, echo: true });
	assert.deepEqual((await scores(origin, "The sky is ", "good")).tokens, [" good"], "spaces at the context's end are the continuation's");
	assert.equal((await scores(origin, "a", " good goods")).greedy, true);
	assert.deepEqual((await scores(origin, "The sk", "y is")).tokens, [" sky", " is"], "a token that reaches into both is the continuation's");
	assert.match((await scores(origin, "", "good")).problem, /no logprob: without a context/);
}));

test("a token for the beginning scores a text without a context", () => withStub({ bos: true }, async ({ origin }) =>
	assert.deepEqual((await scores(origin, "", "𝒳 good")).logprobs, [-1, -2])));

test("an endpoint without logprobs is asked once", () => withStub({ faults: ["nologprobs", "none", "cut"] }, async ({ stats, origin }) => {
	assert.match((await scores(origin, "a", " b", "plain")).lacking, /no logprobs of the prompt/);
	await assert.rejects(scores(origin, "a", " b", "plain"), (error) => error instanceof Refused && /no logprobs/.test(error.message));
	assert.equal((await stats()).requests, 1);
	assert.deepEqual((await scores(origin, "a", " b", "other")).logprobs, [-0.5], "another model is");
}));

test("an answer has its text, its tokens, why it ends and how long it took", () => withStub({}, async ({ call }) => {
	const { latencyMs, ...answer } = await call();
	assert.ok(Number.isInteger(latencyMs) && latencyMs >= 0);
	assert.deepEqual(answer, { output: "hello", usage: { prompt_tokens: 10, completion_tokens: 5 }, finishReason: "stop" });
}));

test("an answer without usage says so", () => withStub({ faults: ["nousage"] }, async ({ call }) =>
	assert.equal((await call()).usage, null)));

test("an answer is a text in pieces, calls of tools, or a refusal, too", () =>
	withStub({ faults: ["parts", "tools", "refusal", "length"] }, async ({ call }) => {
		assert.equal((await call()).output, "hello");
		assert.equal(JSON.parse((await call()).output)[0].function.name, "f");
		const refused = await call();
		assert.deepEqual([refused.output, refused.finishReason], ["I cannot help with that.", "refusal"]);
		assert.equal((await call()).finishReason, "length");
	}));

test("a model that refuses max_tokens gets the same bound by its newer name", () =>
	withStub({ reasoning: true }, async ({ call, stats }) => {
		const body = { model: "m", max_tokens: 7, temperature: 1, messages: [{ role: "user", content: "secret" }] };
		assert.equal((await call({ body })).output, "secret");
		assert.equal((await call({ body })).output, "secret");
		const { requests, last } = await stats();
		assert.deepEqual([requests, last.body.max_completion_tokens, "max_tokens" in last.body], [3, 7, false]);
		await assert.rejects(call({ body: { ...body, temperature: 0 } }), (error) => {
			assert.ok(error instanceof Refused);
			assert.equal(error.message, "status 400: unsupported_value temperature");
			return true;
		});
	}));

test("an address names a server, its /v1, a deployment of Azure, or the whole path", () => {
	const azure = "https://x.openai.azure.com/openai";

	for (const [url, all] of [
		["http://h", "http://h/v1/chat/completions"], ["http://h/v1/", "http://h/v1/chat/completions"],
		["http://h/api/v1/chat/completions", "http://h/api/v1/chat/completions"],
		[`${azure}/v1/`, `${azure}/v1/chat/completions`],
		[`${azure}/deployments/d?api-version=2024-10-21`, `${azure}/deployments/d/chat/completions?api-version=2024-10-21`],
		[`${azure}/deployments/d/chat/completions?api-version=1`, `${azure}/deployments/d/chat/completions?api-version=1`]])
		assert.equal(completions(url), all);
	for (const [url, all] of [["http://h", "http://h/v1/completions"], ["http://h/v1", "http://h/v1/completions"],
		["http://h/api/v1/chat/completions", "http://h/api/v1/completions"],
		[`${azure}/deployments/d?api-version=1`, `${azure}/deployments/d/completions?api-version=1`]])
		assert.equal(completions(url, "completions"), all);
});

test("429 and 503 are tried again, when the endpoint says", () =>
	withStub({ faults: ["429:1", "503"] }, async ({ call, stats }) => {
		const start = Date.now();
		assert.equal((await call()).output, "hello");
		assert.ok(Date.now() - start >= 1000, "it waited for Retry-After");
		assert.equal((await stats()).requests, 3);
	}));

test("a Retry-After past the deadline is not waited for", () =>
	withStub({ faults: ["429:100"] }, async ({ call }) => {
		const start = Date.now();
		await assert.rejects(call({ deadline: Date.now() + 5000 }), Refused);
		assert.ok(Date.now() - start < 4000);
	}));

test("what may have been billed is not sent twice", () =>
	withStub({ faults: ["500", "cut", "garbage", "silent", "null", "huge"] }, async ({ call, stats }) => {
		for (let n = 1; n <= 6; n++) {
			await assert.rejects(call({ timeout: 1000 }), Lost);
			assert.equal((await stats()).requests, n);
		}
	}));

test("a host without an address, and one that is not there, cost nothing", async () => {
	for (const url of ["http://nowhere.invalid/v1/chat/completions", "http://127.0.0.1:1/v1/chat/completions"])
		await assert.rejects(chat({ url, body: {}, deadline: Date.now() + 4000 }), Refused);
});

test("TLS that fails costs nothing", () => withStub({}, async ({ origin }) => {
	await assert.rejects(chat({ url: origin.replace("http:", "https:"), body: {}, deadline: Date.now() + 5000 }), Refused);
	const folder = mkdtempSync(join(tmpdir(), "tls-"));
	try {
		execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=stub",
			"-keyout", join(folder, "key"), "-out", join(folder, "cert")], { stdio: "ignore" });
		const server = createServer({ key: readFileSync(join(folder, "key")), cert: readFileSync(join(folder, "cert")) });
		server.listen(0, "127.0.0.1");
		await once(server, "listening");
		await assert.rejects(chat({ url: `https://127.0.0.1:${server.address().port}/v1`, body: {}, deadline: Date.now() + 5000 }),
			(error) => error instanceof Refused && /no TLS/.test(error.message));
		server.close();
	} finally {
		rmSync(folder, { recursive: true });
	}
}));

test("a redirect within the host is followed, one to another is refused", () =>
	withStub({}, async (other) => withStub({ faults: ["redirect:/elsewhere", "none", `redirect:${other.origin}/v1`] },
		async ({ call, stats }) => {
			assert.equal((await call()).output, "hello");
			assert.equal((await stats()).requests, 2);
			await assert.rejects(call(), /another host/);
			assert.equal((await other.stats()).requests, 0);
		})));

test("a client error is refused at once", () => withStub({ faults: ["400"] }, async ({ call }) =>
	assert.rejects(call(), Refused)));

test("the key comes from the environment and is in no error", () =>
	withStub({ faults: ["none", "400"] }, async ({ call, stats }) => {
		await assert.rejects(call({ secret: "EVAL_TEST_KEY" }), /EVAL_TEST_KEY is not set/);
		process.env.EVAL_TEST_KEY = "s3cret";
		await call({ secret: "EVAL_TEST_KEY" });
		assert.equal((await stats()).authorization, "Bearer s3cret");
		await assert.rejects(call({ secret: "EVAL_TEST_KEY" }), (error) => !/s3cret/.test(error.stack));
	}));

test("Retry-After is seconds or a date", () => {
	assert.equal(retryAfter("2"), 2000);
	assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:09 GMT", 4000), 5000);
	assert.equal(retryAfter("soon"), 0);
	assert.equal(retryAfter(null), 0);
});
