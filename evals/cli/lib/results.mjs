// results.mjs: a run's results, for people and for other programs
import { oneLine } from "./log.mjs";

// The gate as a table, and a last line with the verdict and the cost.
export function gateTable(rows, state, verdict) {
	const heads = ["task", "score", "n", "stderr", "threshold", "baseline", "passes", "gate", "reason"];
	const lines = rows.map((row) => [row.task, scoreOf(row), row.n, row.stderr, row.threshold, row.baseline,
		row.passes === null ? "?" : row.passes ? "yes" : "no", row.blocking ? "blocking" : "advisory", row.reason]
		.map((value) => value === null ? "" : oneLine(value)));
	const widths = heads.map((head, i) => Math.max(head.length, ...lines.map((line) => line[i].length)));
	const draw = (line) => line.map((value, i) => value.padEnd(widths[i])).join("  ").trimEnd();

	return [draw(heads), draw(widths.map((width) => "-".repeat(width))), ...lines.map(draw), "",
		`verdict: ${verdict}; ${state.finished} of ${state.cases} cases, ${state.errors} failed; ${previewNote(state)}`
		+ `cost: ${Number(state.captured).toFixed(6)} of ${Number(state.cap).toFixed(6)} credits`].join("\n");
}

// A score that is no mean of cases, with the figure that it stands for.
function scoreOf({ score, metric, value }) {
	return score === null || value === null || value === undefined ? score : `${score} (${metric} ${value})`;
}

// Of a preview, which asks a sample and may have stopped early.
function previewNote({ cases, set_cases: all, reused, decided_early: early }) {
	const notes = [cases !== all && `a sample of ${all}`, reused > 0 && `${reused} measured before`,
		early && "stopped early as the verdict was certain"].filter(Boolean);

	return notes.length ? `${notes.join(", ")}: no release gate; ` : "";
}

// promptfoo's results.  A case succeeds where its checks pass and its score
// reaches its task's threshold, as in JUnit.
export function promptfooResults({ run, config, version, model, started_at, tasks, cases }) {
	const thresholds = new Map(tasks.map(({ task, threshold }) => [task, threshold]));
	const results = cases.map((one, testIdx) => {
		const judged = Boolean(one.judgements);
		const success = !one.error && one.passed === true && (!judged || one.score >= thresholds.get(one.task));
		return {
			testIdx, promptIdx: 0, promptId: `${config}@${version}`, provider: { id: model },
			prompt: { raw: JSON.stringify(one.input), label: one.name },
			vars: one.input, testCase: { description: one.name, vars: one.input, assert: one.checks ?? [],
				metadata: { task: one.task, tags: one.tags } },
			response: { output: one.output ?? null, tokenUsage: tokenUsage(one.usage) },
			success, score: one.score ?? 0, cost: one.cost ?? 0, latencyMs: 0, namedScores: {},
			failureReason: one.error ? 2 : success ? 0 : 1,		// promptfoo: none, assertion, error
			...one.error ? { error: one.error } : {},
			gradingResult: { pass: success, score: one.score ?? 0, reason: reasonOf(one, success),
				componentResults: components(one) },
		};
	});
	const count = (which) => results.filter(({ failureReason }) => failureReason === which).length;

	return { evalId: `gpucredit-eval-${run}`, shareableUrl: null,
		config: { description: `${config}@${version}` },
		results: { version: 3, timestamp: started_at, prompts: [], results,
			stats: { successes: count(0), failures: count(1), errors: count(2) } } };
}

function reasonOf({ error, checks = [], judgements = [] }, success) {
	return error ?? checks.find(({ pass }) => !pass)?.reason ?? judgements.find(({ reason }) => reason)?.reason
		?? (success ? "All assertions passed" : "Assertion failed");
}

function components({ checks = [], judgements = [] }) {
	return [
		...checks.map(({ type, pass, score, reason = "" }) => ({ pass, score, reason, assertion: { type } })),
		...judgements.map(({ score, reason = "" }) => ({ pass: score > 1, score: (score - 1) / 4, reason,
			assertion: { type: "llm-rubric" } })),
	];
}

function tokenUsage(usage) {
	return usage ? { prompt: usage.prompt_tokens, completion: usage.completion_tokens,
		total: usage.prompt_tokens + usage.completion_tokens } : {};
}

// lm-eval's results.  The score of most tasks is the mean of their cases, which lm-eval
// calls acc; that of others stands for a perplexity, mcc or f1.  Of a perplexity the
// standard error is its own.
export function lmEvalResults({ config, version, model, started_at, tasks }) {
	const byTask = (value) => Object.fromEntries(tasks.map((task) => [task.task, value(task)]));

	return {
		results: byTask(({ task, score, stderr, ...more }) => ({ alias: task,
			[`${nameOf(more)},none`]: nameOf(more) === "acc" ? score : more.value,
			[`${nameOf(more)}_stderr,none`]: nameOf(more) === "perplexity" && stderr !== null && more.value !== null
				? stderr * more.value ** 2 : stderr ?? "N/A" })),
		"n-samples": byTask(({ n }) => ({ original: n, effective: n })),
		versions: byTask(() => version), "n-shot": byTask(() => 0), higher_is_better: byTask((task) => ({ [nameOf(task)]: nameOf(task) !== "perplexity" })),
		config: { model, model_args: `${config}@${version}` }, date: Date.parse(started_at) / 1000,
	};
}

const nameOf = ({ metric }) => metric === undefined || metric === null || metric === "mean" ? "acc" : metric;
