// inspect.test.mjs: Inspect's logs, read and written
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execFileSync } from "node:child_process";
import { after, test } from "node:test";
import { fromInspect, inspectLog, inspectZip, readLog } from "../../cli/lib/inspect.mjs";
import { runChecks } from "../../cli/lib/checks.mjs";

const folder = mkdtempSync(join(tmpdir(), "inspect-"));
after(() => rmSync(folder, { recursive: true }));

function file(name, content) {
	const path = join(folder, name);
	writeFileSync(path, content);
	return path;
}

const log = { version: 2, status: "success", eval: { task: "capitals", model: "m", scorers: [{ name: "includes" }] }, samples: [
	{ id: 1, epoch: 1, input: "Capital of France?", target: ["Paris", "Lutetia"], metadata: { tags: ["easy"] },
		messages: [{ role: "system", content: "Be short." }, { role: "user", content: "attachment://a1" }, { role: "assistant", content: "paris" }],
		attachments: { a1: "What is the capital of France?" } },
	{ id: 1, epoch: 2, input: "Capital of France?", target: "Paris" },
	{ id: "two", epoch: 1, input: [{ role: "user", content: [{ type: "text", text: "Where?" }, { type: "image", image: "data:image/png;base64,AA" }] }], target: "Oslo" }] };
const parts = ({ samples, ...header }) => ({ "header.json": header, ...Object.fromEntries(samples.map((one) => [`samples/${one.id}_epoch_${one.epoch}.json`, one])) });

// A ZIP file as Python writes it, which Inspect uses.
function zipped(name, files) {
	const path = join(folder, name);
	execFileSync("python3", ["-c", `import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:
    for name, value in json.load(sys.stdin).items():
        z.writestr(name, value if isinstance(value, str) else json.dumps(value))`, path], { input: JSON.stringify(files) });
	return path;
}

// A ZIP file whose directory says that a file has 600 MiB.
function huge(name) {
	const bytes = readFileSync(zipped(name, parts(log)));

	bytes.writeUInt32LE(600 * 1024 * 1024, bytes.indexOf("PK\x01\x02", "latin1") + 24);
	return file(name, bytes);
}

// The files of a ZIP, as Python reads them, which checks their sums.
function unzipped(bytes) {
	return JSON.parse(execFileSync("python3", ["-c", `import io, json, sys, zipfile
with zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())) as z:
    assert z.testzip() is None
    print(json.dumps({name: json.loads(z.read(name)) for name in z.namelist()}))`], { input: bytes, maxBuffer: 1e9 }).toString());
}

test("a log's samples are cases, with what the solver asked", () => {
	for (const path of [file("a.json", JSON.stringify(log)), zipped("a.eval", parts(log)),
		zipped("b.eval", Object.fromEntries(Object.entries(parts(log)).map(([name, one]) => [name.replace("header", "_journal/start"), one])))]) {
		const cases = fromInspect(path);
		assert.deepEqual(cases.map(({ name, task, expected }) => [name, task, expected]), [["1", "capitals", ["Paris", "Lutetia"]], ["two", "capitals", "Oslo"]]);
		assert.deepEqual(cases[0].input.messages, [{ role: "system", content: "Be short." }, { role: "user", content: "What is the capital of France?" }]);
		assert.deepEqual(cases[1].input.messages[0].content, [{ type: "text", text: "Where?" }, { type: "image_url", image_url: { url: "data:image/png;base64,AA" } }]);
		assert.deepEqual(cases[0].tags, ["easy"]);
		assert.deepEqual(["in PARIS.", "Lutetia", "Rome"].map((output) => runChecks(cases[0].checks, output).pass), [true, true, false]);
	}
});

test("a scorer is read with its options, or chosen", () => {
	const of = (scorers) => file("s.json", JSON.stringify({ ...log, eval: { ...log.eval, scorers } }));
	assert.equal(runChecks(fromInspect(of([{ name: "inspect_ai/includes", options: { ignore_case: false } }]))[0].checks, "paris").pass, false);
	assert.throws(() => fromInspect(of([{ name: "model_graded_qa" }])), /scorer "model_graded_qa" is not supported; choose one with --match: includes/);
	assert.equal(fromInspect(of([{ name: "model_graded_qa" }]), { match: "includes" }).length, 2);
	assert.throws(() => fromInspect(of([{ name: "includes" }, { name: "exact" }])), /"includes, exact" is not supported/);
	assert.throws(() => fromInspect(of([{ name: "constructor" }])), /not supported/);
});

test("what Python writes and JSON does not have, and what is no log", () => {
	const text = JSON.stringify(log).replace('"samples"', '"stats": {"a": NaN, "b": [-Infinity, "NaN"]}, "samples"');
	assert.deepEqual(readLog(file("nan.json", text)).stats, { a: null, b: [null, "NaN"] });
	for (const [path, message] of [[file("no.json", "{"), /no.json is no JSON/], [file("none.json", '{"samples": []}'), /no samples/],
		[file("cut.eval", "PK\x03\x04 and no more"), /cannot be unpacked/], [zipped("headless.eval", { "x.json": {} }), /no header.json/],
		[huge("huge.eval"), /more than 536870912 bytes/],
		[file("tool.json", JSON.stringify({ ...log, samples: [{ id: 1, target: "a", input: [{ role: "tool", content: "x" }] }] })), /role "tool" is not supported/],
		[file("target.json", JSON.stringify({ ...log, samples: [{ id: 1, target: [], input: "x" }] })), /"target" is no text/],
		[file("proto.json", JSON.stringify({ ...log, samples: [{ id: 1, target: "attachment://constructor", input: "x" }] }).replace('"x"', '{}')), /"input" is no text/]])
		assert.throws(() => fromInspect(path), message);
});

const results = { run: "7", org: "acme", config: "main", version: 2, model: "bot@1", verdict: "block", state: "finished", purpose: "gate",
	started_at: "2030-01-01T10:00:00+00:00", ended_at: "2030-01-01T10:05:00+00:00",
	tasks: [{ task: "qa", score: 0.5, stderr: 0.5, threshold: 0.85, baseline: null, n: 3, passes: false, blocking: true, reason: "below_threshold" },
		{ task: "none", score: null, stderr: null, threshold: 0.85, baseline: null, n: null, passes: null, blocking: false, reason: "no_cases" }],
	cases: [{ case: 11, name: "good", task: "qa", input: { messages: [{ role: "user", content: "2+2?" }] }, expected: "4", output: "4", score: 1,
		checks: [{ type: "equals", pass: true }], usage: { prompt_tokens: 5, completion_tokens: 1 } },
	{ case: 12, name: "../../etc/passwd", task: "qa", input: "2+3?", expected: ["5", 5], output: "6", score: 0, checks: [{ type: "equals", pass: false, reason: "not 5" }],
		judgements: [{ score: 1, reason: "wrong" }], usage: { prompt_tokens: 5, completion_tokens: 2 } },
	{ case: 13, name: "lost", task: "qa", input: { q: 1 }, score: 0, error: "status 500" }, { case: 14, name: "12", task: "qa", input: "later" },
	{ case: 15, name: "twice", task: "qa", input: "a" }, { case: 16, name: "twice", task: "qa", input: "b" }] };

test("a run is a log: samples, scores, a scorer for each task, the tokens", () => {
	const written = inspectLog(results);
	assert.equal(written.status, "success");
	assert.equal(written.eval.created, "2030-01-01T10:00:00.000+00:00");
	assert.deepEqual(written.samples.map(({ id }) => id), ["good", 12, "lost", 14, 15, 16], "no name leads out of a folder or stands for two");
	assert.deepEqual(written.results.scores.map(({ name, metrics }) => [name, metrics.mean.value, metrics.stderr.value]), [["qa", 0.5, 0.5]]);
	assert.deepEqual([written.results.total_samples, written.results.completed_samples], [6, 2]);
	assert.deepEqual(written.stats.model_usage, { "bot@1": { input_tokens: 10, output_tokens: 3, total_tokens: 13 } });
	const [good, bad, lost] = written.samples;
	assert.deepEqual([good.scores.qa.value, good.scores.qa.explanation], [1, undefined]);
	assert.equal(bad.scores.qa.explanation, "failed: equals not 5\njudge: 1 wrong");
	assert.deepEqual(bad.target, ["5", "5"]);
	assert.equal(lost.error.message, "status 500");
	assert.equal(inspectLog({ ...results, state: "running" }).status, "started");
});

test("its ZIP file has the parts that Inspect reads, and can be read again", () => {
	const bytes = inspectZip(inspectLog(results));
	const files = unzipped(Buffer.from(bytes));
	assert.deepEqual(Object.keys(files).sort(), ["_journal/start.json", "_journal/summaries/1.json", "header.json", "reductions.json",
		"samples/12_epoch_1.json", "samples/14_epoch_1.json", "samples/15_epoch_1.json", "samples/16_epoch_1.json", "samples/good_epoch_1.json",
		"samples/lost_epoch_1.json", "summaries.json"]);
	assert.equal(files["header.json"].samples, undefined);
	assert.deepEqual(files["summaries.json"].map(({ id, scores }) => [id, scores.qa?.value]), [["good", 1], [12, 0], ["lost", 0], [14, undefined], [15, undefined], [16, undefined]]);
	const json = inspectLog(results);
	assert.deepEqual(readLog(file("again.eval", bytes)).samples.map(({ id }) => id).sort(), JSON.parse(JSON.stringify(json)).samples.map(({ id }) => id).sort());
	const cases = inspectLog({ ...results, cases: [...results.cases.slice(0, 2).map((one) => ({ ...one, expected: "4" }))] });
	assert.deepEqual(fromInspect(file("cases.eval", inspectZip(cases)), { match: "includes" }).map(({ name, input }) => [name, input.messages.length]), [["good", 1], ["12", 1]]);
});
