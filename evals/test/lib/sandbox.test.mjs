// sandbox.test.mjs: no check and no template keeps a worker busy for ever
import assert from "node:assert/strict";
import { test } from "node:test";
import { Failed, Sandbox } from "../../cli/lib/sandbox.mjs";
import { Worker } from "../../cli/lib/worker.mjs";

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

test("a script that overflows its stack fails alone, whatever other scripts its case has", () =>
	withSandbox({ ms: 20_000 }, async (sandbox) => {
		const overflows = ["(function f(a) { return f([a]) + 1; })(1)", "JSON.stringify((() => { let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a; })())",
			"'x'.repeat(1e9).length"];
		const good = ["output === 'x'", "output.length === 1", "context.vars === undefined || true"];
		const values = [overflows[0], good[0], overflows[1], good[1], overflows[2], good[2], overflows[0]];
		const { results } = await sandbox.run("checks", { checks: values.map((value) => ({ type: "javascript", value })), output: "x" });

		assert.deepEqual(results.map(({ pass }) => pass), values.map((value) => good.includes(value)));
		assert.deepEqual(results.filter(({ error, reason }) => /not loaded/.test(error ?? reason ?? "")), []);
		assert.equal((await sandbox.run("checks", { checks: [{ type: "javascript", value: good[0] }], output: "x" })).pass, true);
	}));

test("templates that loop or grow without end fail", () =>
	withSandbox({ ms: 1500, mebibytes: 64 }, async (sandbox) => {
		const endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% set c = a %}{% endfor %}{% endfor %}";
		await assert.rejects(sandbox.run("casePrompt", { input: {}, template: endless }), Failed);
		const growing = "{% for a in range(1000000000) %}{{ text }}{% endfor %}";
		await assert.rejects(sandbox.run("casePrompt", { input: { text: "x".repeat(1000) }, template: growing }), Failed);
		await assert.rejects(sandbox.run("judgePrompt", { rubric: "r", input: "i", output: "o",
			judge: { template: endless, max_response_bytes: 10 } }), Failed);
		assert.deepEqual(await sandbox.run("casePrompt", { input: { text: "hello" }, template: "{{ text }}" }),
			[{ role: "user", content: "hello" }]);
	}));

test("what a task throws is its own error", () => withSandbox({}, async (sandbox) => {
	await assert.rejects(sandbox.run("casePrompt", { input: {}, template: "{% nonsense" }), Failed);
	assert.equal((await sandbox.run("checks", regex("b", "abc"))).pass, true);
}));

test("no prompt is longer than what credit is set aside for, the judge's neither", () => withSandbox({}, async (sandbox) => {
	const repeated = "{% for a in range(1000) %}{{ response }}{% endfor %}";
	const asked = (judge) => ({ rubric: "r", input: "i", output: "o".repeat(4096), judge: { max_response_bytes: 4096, ...judge } });
	await assert.rejects(sandbox.run("judgePrompt", asked({ template: repeated })), /repeats its variables/);
	await assert.rejects(sandbox.run("judgePrompt", asked({ template: repeated, max_input_tokens: 1000 })), /longer than 1000 tokens/);
	assert.equal((await sandbox.run("judgePrompt", asked({ template: repeated, max_input_tokens: 300_000 }))).length, 1);
	assert.equal((await sandbox.run("judgePrompt", asked({}))).length, 1);
	assert.equal((await sandbox.run("judgePrompt", asked({ template: "{{ question }}{{ rubric }}{{ mark }}{{ response }}" }))).length, 1);
	await assert.rejects(sandbox.run("casePrompt", { input: { text: "long" }, template: "{{ text }}".repeat(9) + "{% for a in range(1000) %}{{ text }}{% endfor %}" }),
		/repeats its variables/);
}));

test("errors are short, whatever a set has in them", () => withSandbox({}, async (sandbox) => {
	const { results } = await sandbox.run("checks", { checks: [{ type: "is-json", value: { ["x".repeat(500_000)]: 1 } }], output: "{}" });
	assert.ok(results[0].error.length <= 1000);
	await assert.rejects(sandbox.run("casePrompt", { input: {}, template: `{{ "a"["${"y".repeat(100_000)}"]() }}` }), (error) => error.message.length <= 1000);
}));

test("the schemas of other cases use up no memory of this one", () => withSandbox({ mebibytes: 32, ms: 20_000 }, async (sandbox) => {
	for (let i = 0; i < 1500; i++) {
		const value = { type: "object", properties: Object.fromEntries(Array.from({ length: 20 }, (_, k) =>
			[`f${i}_${k}`, { type: "string", maxLength: 50, pattern: "^[a-z]+$" }])) };
		assert.equal((await sandbox.run("checks", { checks: [{ type: "is-json", value }], output: "{}" })).pass, true);
	}
}));

test("a case whose report the database refuses fails, and its worker goes on", async () => {
	const reported = [];
	const database = { row(name, ...[, , number, , output, checks]) {
		reported.push([name, number, output?.toString() ?? null, JSON.parse(checks)]);
		if (output && number === 1)
			throw Object.assign(new Error("checks is an array"), { code: "22023" });
		if (output && number === 2)
			throw Object.assign(new Error("the server is gone"), { code: "57P01" });
		return { action: "done" };
	} };
	const worker = new Worker(database, "acme", 1);
	const one = { attempt: 1, input: "q", checks: [{ type: "equals", value: "a" }], parameters: {} };

	worker.spec = { model: {}, endpoint: { price_in: 1, price_out: 2 } };
	worker.model = async () => ({ output: "a", usage: { prompt_tokens: 1, completion_tokens: 1 } });
	try {
		await worker.do({ ...one, case: 1 });
		assert.deepEqual(reported.at(-1), ["report", 1, null, { error: "the report is refused: checks is an array" }]);
		await assert.rejects(worker.do({ ...one, case: 2 }), /server is gone/);
		await worker.do({ ...one, case: 3 });
		assert.equal(reported.at(-1)[2], "a");
	} finally {
		worker.sandbox.close();
	}
});

test("a worker that meets an error reports what is under way before it ends", async () => {
	const reported = [];
	let begin;
	const begun = new Promise((resolve) => { begin = resolve; });
	const cases = [1, 2].map((number) => ({ case: number, attempt: 1, input: `q${number}`, checks: [{ type: "equals", value: "a" }],
		parameters: {} }));
	const database = {
		value: () => ({ purpose: "gate", endpoint: {}, model: {} }),
		rows: () => cases.splice(0),
		row(name, ...[, , number, , , checks]) {
			if (name === "run_state")
				return { state: "running" };
			if (number === 1)
				throw Object.assign(new Error("the server is gone"), { code: "57P01" });
			reported.push([name, number, JSON.parse(checks)[0].pass]);
			return { action: "done" };
		},
	};
	const worker = new Worker(database, "acme", 1, { concurrency: 2 });

	worker.caller = () => async ([{ content }]) => {
		if (content === "q1")
			await begun;
		begin();
		await new Promise((resolve) => { setTimeout(resolve, content === "q1" ? 0 : 300); });
		return { output: "a", usage: { prompt_tokens: 1, completion_tokens: 1 } };
	};
	await assert.rejects(worker.work(), /server is gone/);
	assert.deepEqual(reported, [["report", 2, true]]);
});
