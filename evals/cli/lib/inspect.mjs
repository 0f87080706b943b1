// inspect.mjs: logs of Inspect (inspect.aisi.org.uk), read and written
//
// A log is a JSON document, or a ZIP file (.eval) with the same in parts: a header
// without samples, and a file for each sample.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { strFromU8, strToU8, unzipSync, zipSync } from "fflate";

const VERSION = 2;		// of the log's format
const MOST_BYTES = 512 * 1024 * 1024;
const ZIP = /^PK\x03\x04/;

/*
 * Reading
 */

// How a check does what a scorer does.
const CHECKS = {
	includes: (targets, { ignore_case: ignored = true }) => ({ type: `${ignored ? "i" : ""}contains-any`, value: targets }),
};

// Cases from the samples of a log: what the solver asked, and what was the target.
export function fromInspect(file, { task, match } = {}) {
	const { eval: spec, samples } = readLog(file);

	if (!Array.isArray(samples) || samples.length === 0)
		throw new Error("the log has no samples");
	const checkOf = scorerOf(spec, match);
	return samples.filter(({ epoch = 1 }) => epoch === 1).map((sample) => {
		const where = `sample ${sample.id}`;
		const { messages = [], input, target, metadata = {} } = resolved(sample);
		const asked = messages.findIndex(({ role }) => role === "assistant");
		const targets = [target].flat();

		if (!targets.length || !targets.every((one) => typeof one === "string" && one !== ""))
			throw new Error(`${where}: "target" is no text, and no list of texts`);
		const prompt = asked > 0 ? messages.slice(0, asked) : messages.length && asked < 0 ? messages : input;
		return {
			name: String(sample.id), task: task ?? spec?.task ?? "default", source: `${basename(file)}: ${where}`,
			input: { messages: messagesOf(where, prompt) },
			expected: target, checks: [checkOf(targets)],
			...Array.isArray(metadata?.tags) ? { tags: metadata.tags.map(String) } : {},
		};
	});
}

// The check that stands for the scorer of the log, or for the one that is named.
function scorerOf(spec, match) {
	const [scorer, ...others] = match ? [{ name: match }] : spec?.scorers ?? [];
	const name = scorer?.name?.replace(/^inspect_ai\//, "");

	if (others.length || !Object.hasOwn(CHECKS, name ?? ""))
		throw new Error(`scorer "${others.length ? spec.scorers.map((one) => one.name).join(", ") : name ?? ""}" is not supported; choose one with --match: ${
			Object.keys(CHECKS).join(", ")}`);
	return (targets) => CHECKS[name](targets, scorer.options ?? {});
}

// What a document refers to as "attachment://DIGEST" is among its attachments.
function resolved(sample) {
	const attachments = sample.attachments ?? {};
	const resolve = (value) => typeof value === "string" ? value.replace(/^attachment:\/\/(\w+)$/, (all, digest) =>
		Object.hasOwn(attachments, digest) ? attachments[digest] : all)
		: Array.isArray(value) ? value.map(resolve)
		: value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolve(one)])) : value;
	const { messages, input, target, metadata } = sample;

	return resolve({ messages, input, target, metadata });
}

function messagesOf(where, input) {
	if (typeof input === "string")
		return [{ role: "user", content: input }];
	if (!Array.isArray(input) || input.length === 0)
		throw new Error(`${where}: "input" is no text, and no list of messages`);
	return input.map(({ role, content } = {}) => {
		if (!["system", "user", "assistant"].includes(role))
			throw new Error(`${where}: a message of role "${role}" is not supported`);
		return { role, content: typeof content === "string" ? content : partsOf(where, content) };
	});
}

function partsOf(where, content) {
	if (!Array.isArray(content))
		throw new Error(`${where}: a message without content`);
	return content.map(({ type, text, image } = {}) => {
		if (type === "text" && typeof text === "string")
			return { type, text };
		if (type === "image" && typeof image === "string")
			return { type: "image_url", image_url: { url: image } };
		throw new Error(`${where}: content of type "${type}" is not supported`);
	});
}

// A log with its samples, from either form.
export function readLog(file) {
	const bytes = readFileSync(file);

	if (!ZIP.test(bytes.subarray(0, 4).toString("latin1")))
		return parse(basename(file), bytes.toString("utf8"));
	let size = 0;
	let parts;
	try {
		parts = unzipSync(bytes, { filter({ name, originalSize }) {
			const wanted = /^(header|_journal\/start|samples\/.*)\.json$/.test(name);
			if (wanted && (size += originalSize) > MOST_BYTES)
				throw new Error(`it has more than ${MOST_BYTES} bytes`);
			return wanted;
		} });
	} catch (error) {
		throw new Error(`the log cannot be unpacked: ${error.message}`);
	}
	const names = Object.keys(parts);
	const head = ["header.json", "_journal/start.json"].find((name) => names.includes(name));
	if (!head)
		throw new Error("the log has no header.json");
	const read = (name) => parse(name, strFromU8(parts[name]));
	return { ...read(head), samples: names.filter((name) => name.startsWith("samples/")).map(read) };
}

// Python writes numbers that JSON does not have.
function parse(name, text) {
	try {
		return JSON.parse(text);
	} catch {
		try {
			return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g, (one) => one[0] === '"' ? one : "null"));
		} catch {
			throw new Error(`${name} is no JSON`);
		}
	}
}

/*
 * Writing
 */

const METRIC = { params: {} };

// A run as a log.  Each task is a scorer, whose mean and standard error are those of
// the gate; the value of a sample's score is 0 to 1.
export function inspectLog({ run, org, config, version, model, verdict, state, purpose, started_at, ended_at, tasks, cases,
	set_cases, decided_early, baseline }) {
	const name = `${config}@${version}`;
	const created = iso(started_at);
	const ids = idsOf(cases);
	const samples = cases.map((one) => sampleOf(one, model, ids.get(one.case)));
	const scorers = tasks.filter(({ n }) => n !== null);
	const finished = cases.filter(({ score, error }) => score !== undefined && !error).length;
	const usage = sumOf(cases);

	return {
		version: VERSION, invalidated: false, tags: [], metadata: {}, status: { finished: "success", cancelled: "cancelled" }[state] ?? "started",
		eval: {
			eval_id: `gpucredit-eval-${run}`, run_id: `gpucredit-eval-${run}`, created, task: name, task_id: `${org}-${run}`,
			task_version: version, task_attribs: {}, task_args: {}, task_args_passed: {},
			dataset: { name, samples: samples.length, sample_ids: samples.map(({ id }) => id), shuffled: false },
			model, model_generate_config: {}, model_args: {}, config: { epochs: 1, epochs_reducer: ["mean"] }, packages: {},
			metadata: pruned({ verdict, purpose, run, baseline, set_cases, decided_early }),
			scorers: scorers.map(({ task }) => ({ name: task })),
		},
		plan: { name: "plan", steps: [{ solver: "generate", params: {}, params_passed: {} }], config: {} },
		results: {
			total_samples: samples.length, completed_samples: finished,
			scores: scorers.map(({ task, score, stderr, threshold, baseline: of, reason, passes, blocking, metric: figure = "mean", value }) => ({
				name: task, scorer: task, reducer: "mean", params: {},
				scored_samples: cases.filter((one) => one.task === task && one.score !== undefined).length,
				metrics: { ...score === null ? {} : { [figure]: { name: figure, value: Number(figure === "mean" ? score : value), ...METRIC } },
					...stderr === null ? {} : { stderr: { name: "stderr", value: Number(stderr), ...METRIC } } },
				metadata: pruned({ threshold, baseline: of, reason, passes, blocking }),
			})),
		},
		stats: { started_at: created, completed_at: ended_at ? iso(ended_at) : "", model_usage: usage ? { [model]: usage } : {}, role_usage: {},
			connection_limit_history: [] },
		samples,
		reductions: scorers.map(({ task }) => ({ scorer: task, reducer: "mean", samples: cases
			.filter((one) => one.task === task && one.score !== undefined)
			.map((one) => ({ value: Number(one.score), history: [], sample_id: ids.get(one.case) })) })),
	};
}

// The log's parts in a ZIP file, as Inspect writes them.
export function inspectZip(log) {
	const { samples, reductions, ...header } = log;
	const summaries = samples.map(({ id, epoch, input, target, metadata, scores, model_usage, role_usage, error, messages }) =>
		pruned({ id, epoch, input, target, metadata, scores, model_usage, role_usage, error: error?.message, completed: true,
			message_count: messages.length }));
	const parts = {
		"_journal/start.json": { version: header.version, eval: header.eval, plan: header.plan },
		...Object.fromEntries(samples.map((sample) => [`samples/${sample.id}_epoch_1.json`, sample])),
		"_journal/summaries/1.json": summaries, "summaries.json": summaries, "reductions.json": reductions, "header.json": header,
	};

	return zipSync(Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, strToU8(JSON.stringify(value, null, 2))])));
}

// A sample's id is part of a file's name, so that a name of other characters, or
// one that two cases have, gives way to the case's number.
function idsOf(cases) {
	const seen = new Map();

	for (const { name } of cases)
		seen.set(name, (seen.get(name) ?? 0) + 1);
	return new Map(cases.map(({ name, case: number }) => [number,
		/^[\w-][\w .-]{0,99}$/.test(name) && seen.get(name) === 1 && !/^\d+$/.test(name) ? name : number]));
}

function sampleOf(one, model, id) {
	const { case: number, name, task, input, expected, output, output_base64: bytes, score, error, checks, judgements = [], usage, tags, cost, reused } = one;
	const asked = Array.isArray(input?.messages) ? input.messages.map(messageOf) : undefined;
	const answer = output ?? bytes;
	const message = answer === undefined ? undefined : { role: "assistant", content: answer, source: "generate" };
	const tokens = usageOf(usage);

	return {
		id, epoch: 1, input: asked ?? text(input), target: Array.isArray(expected) ? expected.map(text) : expected === undefined ? "" : text(expected),
		messages: [...asked ?? [{ role: "user", content: text(input) }], ...message ? [message] : []],
		output: { model, completion: answer ?? "", choices: message ? [{ message, stop_reason: "stop" }] : [], ...tokens ? { usage: tokens } : {} },
		scores: score === undefined ? {} : { [task]: pruned({ value: Number(score), history: [], answer, explanation: explanationOf(one),
			metadata: pruned({ checks, judgements }) }) },
		metadata: pruned({ name, case: number, task, tags, cost, reused }), store: {}, events: [], attachments: {},
		model_usage: tokens ? { [model]: tokens } : {}, role_usage: {},
		...error ? { error: { message: error, traceback: error, traceback_ansi: error } } : {},
	};
}

function explanationOf({ checks = [], judgements = [] }) {
	return [...Array.isArray(checks) ? checks.filter(({ pass }) => !pass).map(({ type, reason, error }) =>
		["failed:", type, reason, error].filter(Boolean).join(" ")) : [],
	...judgements.map(({ score, reason }) => `judge: ${score} ${reason ?? ""}`.trim())].join("\n") || undefined;
}

function messageOf({ role, content }) {
	return { role, content: !Array.isArray(content) ? text(content) : content.map((part) => part?.type === "text" ? { type: "text", text: part.text }
		: part?.type === "image_url" ? { type: "image", image: part.image_url?.url ?? part.image_url, detail: "auto" }
		: { type: "text", text: text(part) }) };
}

function usageOf(usage) {
	return usage ? { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens,
		total_tokens: usage.prompt_tokens + usage.completion_tokens } : undefined;
}

function sumOf(cases) {
	return cases.map(({ usage }) => usageOf(usage)).filter(Boolean).reduce((sum, one) => sum
		? Object.fromEntries(Object.entries(one).map(([key, value]) => [key, value + sum[key]])) : one, undefined);
}

function text(value) {
	return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

function pruned(object) {
	return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== null));
}

// Inspect wants an offset of time.
function iso(time) {
	return new Date(time).toISOString().replace("Z", "+00:00");
}
