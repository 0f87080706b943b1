// ci.test.mjs: a job of CI that is stopped early
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CiJob } from "../../cli/lib/ci.mjs";

for (const work of [true, false])
	test(`a job that is stopped while its run starts cancels it, ${work ? "and asks no model" : "and waits for no worker"}`, async () => {
		const folder = mkdtempSync(join(tmpdir(), "gpucredit-ci-"));
		const calls = [];
		let state = "running";
		const database = {
			value(name) {
				calls.push(name);
				return name === "results" ? { run: 7, config: "main", version: 1, model: "house", verdict: "inconclusive", tasks: [], cases: [] }
					: name === "junit" ? "<testsuites/>" : { purpose: "gate", endpoint: {}, model: {} };
			},
			row(name) {
				calls.push(name);
				if (name === "start_run") {
					job.stop();
					return { status: "granted", run: 7, cases: 1, held: "5" };
				}
				if (name === "cancel_run")
					state = "cancelled";
				return { state, cases: 1, finished: 0, errors: 0, captured: "0", cap: "5" };
			},
			rows(name) {
				calls.push(name);
				state = "finished";
				return [];
			},
		};
		const job = new CiJob(database, { org: "acme", account: "nlp", config: "main", model: "house", work, folder, "no-comment": true }, {});

		try {
			assert.equal(await job.run(), "inconclusive");
			assert.ok(calls.includes("cancel_run"));
			assert.ok(!calls.includes("lease_cases"));
		} finally {
			rmSync(folder, { recursive: true });
		}
	});
