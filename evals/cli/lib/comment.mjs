// comment.mjs: a run as a comment on a change, in Markdown
//
// Whoever wrote the change may have chosen every name, prompt and answer, and
// everybody who may read the change reads the comment.  Texts are therefore
// written so that Markdown and HTML have no part in them: each punctuation mark
// of ASCII is a numeric reference, which neither takes for syntax, and each text
// stands in <code> or <pre>, where GitHub and GitLab make no mentions or links.
// Cases come from results(), which has none of held-out sets.
import { createHash } from "node:crypto";
import { mask } from "./log.mjs";

// GitHub takes 65,536 characters.  A character becomes 7 at most (see shown()),
// so all of these together stay below that.
const MOST_TASKS = 30;
const MOST_WORST = 5;
const LIMITS = { name: 80, input: 200, failed: 200, expected: 150, output: 300 };

const HEADS = { pass: "passed", warn: "passed, with warnings", block: "blocked", inconclusive: "not decided" };

// The first line of all comments about a config.  A later run replaces the
// comment that begins with it.
export function marker(...about) {
	return `<!-- gpucredit-eval ${createHash("sha256").update(JSON.stringify(about)).digest("hex").slice(0, 16)} -->`;
}

// A run that has ended, or is paused.
export function runComment({ results, state, first, commit, worst = MOST_WORST, secrets = [] }) {
	const { run, config, version, model, verdict, baseline, tasks, purpose } = results;
	const show = (text, limit = LIMITS.name) => code(mask(String(text ?? ""), secrets), limit);
	const lines = [first, `### Evaluation ${HEADS[verdict] ?? HEADS.inconclusive}`, "",
		`Run ${whole(run)} of ${show(`${config}@${version}`)} asked ${show(model)}${at(commit)}. ${progress(state)}`, ""];

	if (purpose === "preview")
		lines.push(previewNote(state), "");
	lines.push(...taskTable(tasks, show));
	if (baseline)
		lines.push("", `The baseline is run ${whole(baseline)}, as it scored on cases of locked sets.`);
	if (state.state === "paused")
		lines.push("", "The run is paused, as its cap is used up. `raise_cap()` lets it go on.");
	else if (state.state === "cancelled")
		lines.push("", state.problem ? "The run was stopped, as an endpoint reported more than a call can cost." : "The run was cancelled.");
	if (worst > 0)
		lines.push("", ...worstCases(results, Math.min(worst, MOST_WORST), secrets));
	return `${lines.join("\n")}\n`;
}

// A run that never started, or of which nothing is known.
export function otherComment({ first, commit, head, reason, secrets = [] }) {
	return `${[first, `### Evaluation ${head}`, "", `${reason === undefined ? "The job ended with an error, which its log has"
		: `The run was denied: ${code(mask(String(reason), secrets), LIMITS.name)}`}${at(commit)}.`].join("\n")}\n`;
}

function at(commit) {
	return /^[0-9a-f]{7,64}$/.test(commit ?? "") ? ` at commit ${commit.slice(0, 12)}` : "";
}

function progress({ finished, cases, errors, captured, cap }) {
	const cost = captured === null ? "" : ` It cost ${figure(captured)} of ${figure(cap)} credits.`;

	return finished === null ? `It has ${whole(cases)} cases, some of them held out.${cost}`
		: `${whole(finished)} of ${whole(cases)} cases are finished, ${whole(errors)} of them failed.${cost}`;
}

function previewNote({ cases, set_cases: all, reused, decided_early: early }) {
	return ["This is a preview and no release gate.", `It asks ${whole(cases)} of ${whole(all)} cases.`,
		reused > 0 ? `${whole(reused)} results were measured by earlier runs.` : "",
		early ? "It stopped early, as the other cases could not change the verdict." : ""].filter(Boolean).join(" ");
}

// What does not pass comes first.
function taskTable(tasks, show) {
	const rank = ({ passes, blocking }) => passes === true ? 4 : (passes === false ? 0 : 1) + (blocking ? 0 : 2);
	const ordered = [...tasks].sort((a, b) => rank(a) - rank(b) || (a.task < b.task ? -1 : 1));
	const rows = ordered.slice(0, MOST_TASKS).map(({ task, score, stderr, baseline, threshold, n, passes, blocking, reason, metric, value }) =>
		[show(task), figure(score) + (figure(value) === "" ? "" : ` (${word(metric)} ${figure(value)})`) + (stderr === null || stderr === undefined ? "" : ` ± ${figure(stderr)}`), figure(baseline),
			figure(threshold), whole(n), blocking ? "blocking" : "advisory",
			`${passes === true ? "✅" : passes === false ? "❌" : "❔"} ${word(reason)}`]);

	return ["| task | score | baseline | threshold | cases | gate | result |", "|---|--:|--:|--:|--:|---|---|",
		...rows.map((row) => `| ${row.join(" | ")} |`),
		...ordered.length > MOST_TASKS ? ["", `${ordered.length - MOST_TASKS} more tasks are in the JUnit report.`] : []];
}

// Those with the lowest scores, of tasks that block first.
function worstCases({ tasks, cases }, n, secrets) {
	const blocking = new Map(tasks.map(({ task, blocking: blocks }) => [task, blocks ? 0 : 1]));
	const lost = cases.filter(({ score, error }) => error || typeof score === "number" && score < 1)
		.sort((a, b) => (a.score ?? 0) - (b.score ?? 0) || blocking.get(a.task) - blocking.get(b.task)
			|| (b.weight ?? 1) - (a.weight ?? 1) || a.case - b.case);
	const hidden = tasks.some(({ n: all, task }) => all > cases.filter((one) => one.task === task).length);
	const note = hidden ? ["", "Cases that are held out, or that this job may not read, are not shown."] : [];

	if (lost.length === 0)
		return ["No case that may be shown lost anything.", ...note];
	return [`#### The ${n < lost.length ? `${n} worst of ${lost.length} cases that lost` : "worst cases"}`,
		...lost.slice(0, n).flatMap((one) => ["", worstCase(one, secrets)]), ...note];
}

// On one line, as an empty one would end the HTML.
function worstCase(one, secrets) {
	const { name, task, score, error, checks = [], judgements = [], expected, output, output_base64: bytes, input } = one;
	const failed = [error && `error: ${error}`,
		...checks.filter(({ pass }) => !pass).map(({ type, reason, error: why }) => ["failed:", type, reason, why].filter(Boolean).join(" ")),
		...judgements.map(({ reason }) => reason && `judge: ${reason}`)].filter(Boolean).join("\n");
	const parts = [["input", asked(input)], ["failed", failed], ["expected", text(expected)], ["output", output ?? bytes]]
		.filter(([, value]) => value !== undefined && value !== "")
		.map(([what, value]) => what === "failed" ? shown(mask(value, secrets), LIMITS.failed, true)
			: `${what}: ${shown(mask(value, secrets), LIMITS[what], true)}`);

	return `<details><summary>${code(mask(task, secrets), LIMITS.name)} ${code(mask(name, secrets), LIMITS.name)}: ${
		error ? "failed" : figure(score)}</summary><pre>${parts.join("&#10;")}</pre></details>`;
}

function text(value) {
	return value === undefined || value === null ? undefined : typeof value === "string" ? value : JSON.stringify(value);
}

// The last message of a prompt, or all of what is asked.
function asked(input) {
	const last = Array.isArray(input?.messages) ? input.messages.at(-1)?.content : input;

	return text(last);
}

function code(value, limit) {
	return `<code>${shown(value, limit, false) || "&#63;"}</code>`;
}

// A text of at most so many characters, in which nothing is syntax.  What is
// invisible, or would reverse what follows, is a replacement character; a third
// accent on one letter is dropped.  After "@" stands a space without width, as
// an address would be a link.
export function shown(value, limit, lines) {
	const letters = [...value.slice(0, limit * 4).normalize("NFC")];
	const cut = letters.length > limit || value.length > limit * 4 ? `${letters.slice(0, limit - 1).join("")}…` : letters.join("");

	return cut.replace(/\r\n?/g, "\n").replace(/[\n\t]/g, (one) => lines ? one : " ")
		.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, "\ufffd").replace(/(\p{M}{2})\p{M}+/gu, "$1")
		.replace(/[!-/:-@[-`{-~\n\t]/g, (mark) => `&#${mark.charCodeAt(0)};${mark === "@" ? "\u200b" : ""}`);
}

// Figures and words of the database, which are nothing else.
function figure(value) {
	const number = value === null || value === undefined ? NaN : Number(value);

	return Number.isFinite(number) ? String(Number(number.toFixed(4))) : "";
}

function whole(value) {
	return /^\d{1,19}$/.test(String(value ?? "")) ? String(value) : "?";
}

function word(value) {
	return /^[a-z_]{1,40}$/.test(value ?? "") ? value.replaceAll("_", " ") : "?";
}
