// checks.test.mjs: checks decide as promptfoo and JSON Schema's own suite do
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { compileSchema, runChecks } from "../../cli/lib/checks.mjs";
import { fromPromptfoo } from "../../cli/lib/promptfoo.mjs";
import { withScripts } from "../../cli/lib/script.mjs";

const data = new URL("../data/", import.meta.url).pathname;
const suite = "/usr/share/json-schema-test-suite";

test("promptfoo's verdicts and scores, of all that needs no judge", () => {
	const verdicts = readFileSync(`${data}parity.verdicts`, "utf8").trim().split("\n");
	const cases = fromPromptfoo(`${data}parity.yaml`);

	assert.equal(cases.length, verdicts.length);
	cases.forEach(({ name, input, checks, rubric, threshold }, i) => {
		if (rubric)
			return;
		const { pass, score } = runChecks(checks, input.messages[0].content.slice("Say ".length), threshold);
		assert.equal(`${pass ? "pass" : "fail"} ${score.toFixed(4)}`, verdicts[i], `test ${name}`);
	});
});

test("similarity to several texts: one has to be similar enough, and of an opposite none may be", () => {
	const similarities = [["a", 0.9], ["b", 0.8], ["c", 0.1], ["__proto__", 0.95], ["n", NaN]];
	const one = (type, value, more = {}, output = "answer") => {
		const { pass, results: [{ score, error }] } = runChecks([{ type, value, ...more }], output, undefined, { similarities });
		return error ?? `${pass} ${score.toFixed(2)}`;
	};

	assert.equal(one("similar", ["c", "b", "a"]), "true 0.80");
	assert.equal(one("similar", ["c", "b", "a"], { threshold: 0.91 }), "false 0.90");
	assert.equal(one("not-similar", ["c", "b", "a"]), "false 0.20");
	assert.equal(one("not-similar", ["c", "b", "a"], { threshold: 0.9 }), "true 0.10");
	assert.equal(one("similar", "__proto__"), "true 0.95");
	assert.equal(one("similar", "n", { threshold: -1 }), "false 0.00");
	assert.equal(one("similar", "a", { threshold: 0 }, ""), "false 0.00");
	assert.match(one("similar", "unknown"), /no embedding model was asked/);
	assert.match(runChecks([{ type: "similar", value: "a" }], "answer").results[0].error, /no embedding model was asked/);
});

test("what promptfoo's assertion of similarity has and is not supported is refused by its name", () => {
	const read = (tests) => {
		const folder = mkdtempSync(join(tmpdir(), "similar-"));
		writeFileSync(join(folder, "x.yaml"), JSON.stringify({ prompts: ["Say {{a}}"], tests }));
		try {
			return fromPromptfoo(join(folder, "x.yaml"), { warn: () => {} });
		} finally {
			rmSync(folder, { recursive: true });
		}
	};

	assert.deepEqual(read([{ vars: { a: "b" }, assert: [{ type: "similar", value: ["{{a}}", "c"], threshold: 0.5, provider: "x" }] }])[0].checks,
		[{ type: "similar", value: ["b", "c"], threshold: 0.5 }]);
	assert.throws(() => read([{ vars: { a: "b" }, assert: [{ type: "similar:dot", value: "c" }] }]), /"similar:dot" is not supported/);
	assert.throws(() => read([{ vars: { a: "b" }, options: { transform: "output" }, assert: [{ type: "similar", value: "c" }] }]), /transform is not supported/);
	assert.throws(() => read([{ vars: { a: "b" }, assert: [{ type: "assert-set", assert: [{ type: "similar", value: "c" }] }] }]),
		/assert-set with "similar" is not supported/);
});

// What the stub answers and judges.
const answerOf = ({ messages }) => messages.at(-1).content.replace(/^Say /, "");
const isGood = (text) => Number(/quality:(\d)/.exec(text)?.[1] ?? 1) >= 4;

test("configs in the manner of real ones: promptfoo's verdicts, by 0.118.17 and 0.123.1", () => {
	const [, ...expected] = readFileSync(`${data}promptfoo.verdicts`, "utf8").split(/^== /m).map((part) => part.trim().split("\n"));

	assert.equal(expected.length, 10);
	for (const [name, ...verdicts] of expected) {
		const cases = fromPromptfoo(`${data}promptfoo/${name}.yaml`, { warn: () => {} });
		const own = cases.map(({ input, checks, rubric, threshold }) => {
			const output = answerOf(input);
			const { pass } = runChecks(checks, output, threshold, { latencyMs: 1, finishReason: "stop" });
			return pass && (!rubric || isGood(output)) ? "pass" : "fail";
		});
		assert.deepEqual(own, verdicts.map((verdict) => verdict.split(" ")[0]), name);
	}
});

test("what is no check fails its case", () => {
	for (const check of [{ type: "python", value: "True" }, null, {}, { type: 1 },
		{ type: "equals", value: "x", weight: -1 }, { type: "equals", value: "x", weight: "much" }])
		assert.deepEqual(runChecks([check, { type: "equals", value: "x" }], "x", 0.5).pass, false);
});

test("draft 7 of JSON Schema's test suite, but for siblings of $ref", { skip: !existsSync(suite) }, () => {
	const read = (path) => JSON.parse(readFileSync(`${suite}/${path}`, "utf8"));
	const others = Object.fromEntries(["integer", "name", "subSchemas", "folder/folderInteger"]
		.map((name) => [`http://localhost:1234/${name}.json`, read(`remotes/${name}.json`)]));
	const wrong = [];
	let n = 0;

	for (const file of readdirSync(`${suite}/tests/draft7`).filter((name) => name.endsWith(".json")))
		for (const { description, schema, tests } of read(`tests/draft7/${file}`)) {
			const fits = compileSchema(schema, { strict: false, others });
			for (const { description: which, data, valid } of tests) {
				n++;
				if (fits(data) !== valid)
					wrong.push(`${description}: ${which}`);
			}
		}
	assert.equal(n, 423);
	assert.deepEqual(wrong, ["ref overrides any sibling keywords: ref valid, maxItems ignored"]);
});

test("a script reaches nothing, ends nothing, and the next one runs", async () => {
	const run = (value, output = "x") => runChecks([{ type: "javascript", value }], output).pass;
	for (const value of ["process.exit(0) || true", "require('fs') && true", "fetch('http://127.0.0.1') && true",
		"globalThis.constructor.constructor('return process')() && true", "new Promise(() => {})",
		"'a'.repeat(2 ** 30).length > 0", "(function f() { return f() })()"]) {
		assert.equal(await withScripts(() => run(value)), false, value);
		assert.equal(await withScripts(() => run("output === 'x'")), true, `after ${value}`);
	}
	const results = (checks) => runChecks(checks, "x", 0.1, { latencyMs: 5, cost: 0.002 });
	assert.equal(results([{ type: "cost", threshold: 0.002 }, { type: "latency", threshold: 5 }]).pass, true);
	assert.equal(results([{ type: "cost", threshold: 0.001 }]).pass, false);
	assert.equal(results([{ type: "contains", value: "x", transform: ["null"] }]).pass, false, "a transform that returns nothing");
	assert.equal(results([{ type: "javascript", value: "7" }]).score, 1, "no score is above 1");
});
