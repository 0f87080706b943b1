// comment.test.mjs: what others chose is text in a comment and in a log
import assert from "node:assert/strict";
import { test } from "node:test";
import { marker, otherComment, runComment, shown } from "../../cli/lib/comment.mjs";
import { mask, oneLine, secretsIn } from "../../cli/lib/log.mjs";

const ASCII = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join("");
const decode = (text) => text.replace(/&#(\d+);\u200b?/g, (_, n) => String.fromCharCode(n));
const state = { state: "finished", cases: 10, finished: 10, errors: 1, captured: "0.01", cap: "5" };
const gate = { task: "qa", score: 0.5, stderr: 0.1, baseline: 0.6, threshold: 0.85, n: 3, passes: false, blocking: true, reason: "below_threshold" };
const results = { run: 3, config: "main", version: 2, model: "house", verdict: "block", baseline: 1, tasks: [gate],
	cases: [{ case: 1, task: "qa", name: "a", score: 0, input: "why?", output: "no" }, { case: 2, task: "qa", name: "b", score: 1 },
		{ case: 3, task: "qa", name: "c", error: "lost", score: 0 }] };
const comment = (more = {}) => runComment({ results: { ...results, ...more }, state, first: marker("x"), secrets: ["hunter2hunter2"] });

test("a text has no mark of punctuation, and reads the same", () => {
	const text = shown(ASCII, 200, true);
	assert.match(text, /^(?:[A-Za-z0-9 ]|&#\d+;\u200b?)+$/);
	assert.equal(decode(text), ASCII);
});

test("what is invisible or turns a line round is shown as what it is", () => {
	assert.equal(shown("a\u202eb\u200bc\0d\ue000e\ud800", 20, true), "a\ufffdb\ufffdc\ufffdd\ufffde\ufffd");
	assert.equal(shown(`z${"\u0335".repeat(50)}`, 200, true).length, 3);
	assert.equal(shown("a\r\nb\tc", 20, true), "a&#10;b&#9;c");
	assert.equal(shown("a\r\nb\tc", 20, false), "a b c");
});

test("a text is cut between its letters", () => {
	assert.equal(shown("😀".repeat(100), 4, true), "😀😀😀…");
	assert.equal(shown("abcd", 4, true), "abcd");
});

test("tasks are in a table, what does not pass first, and the cases that lost most below", () => {
	const text = comment({ tasks: [{ ...gate, task: "fine", passes: true, reason: "passes" }, gate] });
	const rows = text.split("\n").filter((line) => line.startsWith("| <code>"));
	assert.equal(rows[0], "| <code>qa</code> | 0.5 ± 0.1 | 0.6 | 0.85 | 3 | blocking | ❌ below threshold |");
	assert.match(rows[1], /fine.*✅ passes/);
	assert.match(text, /Run 3 of .*main.*house.*10 of 10 cases are finished, 1 of them failed\. It cost 0\.01 of 5 credits\./);
	assert.match(text, /The baseline is run 1/);
	assert.deepEqual([...text.matchAll(/<details>.*<\/code>: (\w+)/g)].map(([, score]) => score), ["0", "failed"]);
	assert.doesNotMatch(text, /<code>b</);
});

test("a preview says that it asked a sample, took results over and stopped early", () => {
	const of = (more, purpose = "preview") => runComment({ results: { ...results, purpose }, state: { ...state, set_cases: 500, reused: 4, ...more },
		first: marker("x") });
	assert.match(of({ decided_early: true }), /This is a preview and no release gate\. It asks 10 of 500 cases\. 4 results were measured by earlier runs\. It stopped early, as/);
	assert.match(of({ reused: 0 }), /It asks 10 of 500 cases\.\n/);
	assert.doesNotMatch(of({}, "gate"), /preview/);
});

test("no more than the limits of GitHub, whatever there is", () => {
	const long = "@".repeat(10_000);
	const tasks = Array.from({ length: 2000 }, (_, i) => ({ ...gate, task: `${long}${i}` }));
	const cases = Array.from({ length: 50 }, (_, i) => ({ case: i, task: tasks[0].task, name: long, score: 0, input: long, output: long,
		expected: long, checks: [{ type: long, pass: false, reason: long }], judgements: [{ reason: long }] }));
	const text = comment({ tasks, cases, config: long, model: long });
	assert.ok(text.length < 65_536, `${text.length} characters`);
	assert.match(text, /1970 more tasks/);
	assert.equal([...text.matchAll(/<details>/g)].length, 5);
});

test("secrets are masked before a text is cut", () => {
	const text = comment({ cases: [{ case: 1, task: "qa", name: "a", score: 0, output: `${"x".repeat(294)}hunter2hunter2` }], model: "hunter2hunter2" });
	assert.doesNotMatch(text, /hunter/);
	assert.doesNotMatch(otherComment({ first: "", head: "", reason: "hunter2hunter2", secrets: ["hunter2hunter2"] }), /hunter/);
	assert.deepEqual(secretsIn({ PGPASSWORD: "abcdef\nghijkl", API_KEY: "k", HOME: "/home/me", JUDGE: "mnopqr" }, ["JUDGE"]),
		["abcdef\nghijkl", "abcdef", "ghijkl", "mnopqr"]);
	assert.equal(mask("abcdefgh", ["abcdef"]), "***gh");
});

test("figures and words that are none are not shown", () => {
	const text = comment({ run: "<b>", tasks: [{ ...gate, score: "<i>", n: "|", reason: "<u>" }] });
	assert.doesNotMatch(text, /<[biu]>/);
});

test("a line of a log has no command", () => {
	for (const text of ["::error::x", "  ::add-mask::x", "a\n::set-output name=x::y", "a ##[group]x", "a\r\x1b[0Ksection_start:1:x"]) {
		const line = oneLine(text);
		assert.doesNotMatch(line, /^\s*::|##\[|[\n\r\x1b]/);
	}
	assert.equal(oneLine("a::b # c"), "a::b # c");
});
