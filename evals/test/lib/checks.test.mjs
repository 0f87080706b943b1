// checks.test.mjs: checks decide as promptfoo and JSON Schema's own suite do
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { compileSchema, runChecks } from "../../cli/lib/checks.mjs";
import { fromPromptfoo } from "../../cli/lib/promptfoo.mjs";

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

test("what is no check fails its case", () => {
	for (const check of [{ type: "javascript", value: "true" }, null, {}, { type: 1 },
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
