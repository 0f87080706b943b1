// run_lines.test.mjs: which of several runs is worked on, and when
import assert from "node:assert/strict";
import test from "node:test";
import { RunLines } from "../../cli/lib/run_lines.mjs";

// Lines whose runs end, or go on, when the test says so; "begun" has their order.
function made() {
	const begun = [], open = new Map(), errors = [];
	const lines = new RunLines((run) => {
		begun.push(run);
		return new Promise((resolve, reject) => open.set(run, { resolve, reject }));
	}, (error) => errors.push(error.message));

	return { lines, begun, errors, async end(run, goesOn = false) {
		open.get(run).resolve(goesOn);
		await new Promise(setImmediate);
	}, async fail(run) {
		open.get(run).reject(new Error(`run ${run}`));
		await new Promise(setImmediate);
	} };
}

test("a gate waits for no other run, and each line has one run under way", async () => {
	const { lines, begun, end } = made();

	[1, 2].forEach((run) => lines.add(run, "others"));
	lines.begin();
	lines.add(3, "gates");
	lines.begin();
	assert.deepEqual(begun, [1, 3]);
	await end(3);
	assert.deepEqual(begun, [1, 3]);
	await end(1);
	assert.deepEqual(begun, [1, 3, 2]);
	await end(2);
	await lines.end();
	assert.equal(lines.has(2), false);
});

test("a run that has nothing to do goes to the end of its line", async () => {
	const { lines, begun, end } = made();

	[1, 2].forEach((run) => lines.add(run, "gates"));
	lines.begin();
	await end(1, true);
	assert.deepEqual(begun, [1, 2]);
	assert.equal(lines.has(1), true);
	await end(2);
	assert.deepEqual(begun, [1, 2, 1]);
	await end(1);
	await lines.end();
});

test("who comes later goes first where the order says so", async () => {
	const { lines, begun, end } = made();

	[1, 2, 3].forEach((run) => lines.add(run, "others"));
	lines.begin();
	[1, 4, 2, 3].forEach((run) => lines.add(run, run === 4 ? "gates" : "others"));
	[5, 3, 2].forEach((run) => lines.add(run, "others"));
	lines.begin();
	assert.deepEqual(begun, [1, 4]);
	await end(1);
	await end(5);
	await end(3);
	await end(2);
	assert.deepEqual(begun, [1, 4, 5, 3, 2]);
});

test("a gate that becomes its account's first changes the line", async () => {
	const { lines, begun, end } = made();

	[1, 2].forEach((run) => lines.add(run, "others"));
	lines.begin();
	lines.add(2, "gates");
	lines.begin();
	assert.deepEqual(begun, [1, 2]);
	await end(1);
	await end(2);
	await lines.end();
});

test("an error ends one run, and after a stop none begins", async () => {
	const { lines, begun, errors, end, fail } = made();

	[1, 2, 3].forEach((run) => lines.add(run, "others"));
	lines.begin();
	await fail(1);
	assert.deepEqual([begun, errors, lines.has(1)], [[1, 2], ["run 1"], false]);
	lines.stop();
	await end(2, true);
	await lines.end();
	assert.deepEqual(begun, [1, 2]);
});
