// sandbox.test.mjs: no check and no template keeps a worker busy for ever
import assert from "node:assert/strict";
import { test } from "node:test";
import { Failed, Sandbox } from "../../cli/lib/sandbox.mjs";

async function withSandbox(options, use) {
	const sandbox = new Sandbox(options);
	try {
		await use(sandbox);
	} finally {
		await sandbox.close();
	}
}

const regex = (value, output) => ({ checks: [{ type: "regex", value }], output });
const LETTERS = `${"a".repeat(40)}!`;

test("a regular expression that backtracks without end is decided in linear time", () =>
	withSandbox({ ms: 20_000 }, async (sandbox) => {
		for (const pattern of ["^(\\w+\\s?)+$", "^(a|a)*$", "(a*)*b", "([a-zA-Z]+)*\\d", "^(a+)+$"])
			assert.equal((await sandbox.run("checks", regex(pattern, LETTERS))).pass, false, pattern);
		assert.equal((await sandbox.run("checks", regex("^(\\w+\\s?)+$", "a".repeat(40)))).pass, true);
	}));

test("one that no linear engine has is ended, and the next check is decided", () =>
	withSandbox({ ms: 500 }, async (sandbox) => {
		const hung = sandbox.run("checks", regex("^(?=(a+)+$)", LETTERS));
		const next = sandbox.run("checks", regex("a", LETTERS));
		await assert.rejects(hung, (error) => error instanceof Failed && /more than 500 ms/.test(error.message));
		assert.equal((await next).pass, true);
	}));

test("templates that loop or grow without end fail", () =>
	withSandbox({ ms: 1500, mebibytes: 64 }, async (sandbox) => {
		const endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% set c = a %}{% endfor %}{% endfor %}";
		await assert.rejects(sandbox.run("caseMessages", { input: {}, template: endless }), Failed);
		const growing = "{% for a in range(1000000000) %}{{ text }}{% endfor %}";
		await assert.rejects(sandbox.run("caseMessages", { input: { text: "x".repeat(1000) }, template: growing }), Failed);
		await assert.rejects(sandbox.run("judgeMessages", { rubric: "r", input: "i", output: "o",
			judge: { template: endless, max_response_bytes: 10 } }), Failed);
		assert.deepEqual(await sandbox.run("caseMessages", { input: { text: "hello" }, template: "{{ text }}" }),
			[{ role: "user", content: "hello" }]);
	}));

test("what a task throws is its own error", () => withSandbox({}, async (sandbox) => {
	await assert.rejects(sandbox.run("caseMessages", { input: {}, template: "{% nonsense" }), Failed);
	assert.equal((await sandbox.run("checks", regex("b", "abc"))).pass, true);
}));
