#!/usr/bin/env node
// gpucredit-eval: imports golden sets, runs them against models, prints gates
//
// It keeps nothing: gpucredit_eval decides, and any number of these may work
// on one run.  HELP below is the whole interface.
import { createHash, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CiJob } from "./lib/ci.mjs";
import { marker, runComment } from "./lib/comment.mjs";
import { Database } from "./lib/database.mjs";
import { fromInspect, inspectLog, inspectZip } from "./lib/inspect.mjs";
import { importLmEval } from "./lib/lm_eval.mjs";
import { mask, oneLine, secretsIn } from "./lib/log.mjs";
import { fromOpenAIEvals } from "./lib/openai_evals.mjs";
import { fromPromptfoo } from "./lib/promptfoo.mjs";
import { gateTable, lmEvalResults, promptfooResults } from "./lib/results.mjs";
import { RunLines } from "./lib/run_lines.mjs";
import { Worker } from "./lib/worker.mjs";

const HELP = `gpucredit-eval COMMAND [OPTION...]

  import FORMAT FILE   adds cases to a set: promptfoo (YAML, JSONL or CSV), lm-eval (a task's YAML),
                       openai-evals (JSONL), inspect (a log, .json or .eval)
        --set NAME [--kind locked|live|held_out] [--freeze] [--task NAME] [--print]
        promptfoo: [--root FOLDER]                         which folder's files a config may read; its own
        lm-eval: [--filter NAME] [--metric NAME]           which of several counts
                 [--num-fewshot N]                         how many solved examples a prompt has
                 [--documents FILE|FOLDER]                 a folder has a file SPLIT.jsonl for each split
                 [--registry URL [--dataset ORG/NAME@REV]] a dataset of the registry has; REGISTRY_TOKEN may read it
        openai-evals: [--match match|includes]
        inspect: [--match includes]                        how targets are found, if not as the log's scorer does
  run                  starts a run, works on it, prints its gate
        --account PATH --config NAME --model NAME [--purpose gate] [--cap 5] [--baseline RUN]
        [--options JSON] [--key KEY] [--no-work]
        purposes: development, gate, production_gate, nightly, calibration, and preview: quick, of a sample, for a
        pull request; workers measure it, as they do a production gate
  work [--run N]       works on a run until it ends; start as many as you like. Without --run it works on
                       all that are open, on one gate and on one other run at a time
        [--concurrency 16] [--ttl 120] [--timeout 60]      seconds a lease and a call may take
        [--every 10]                                       seconds between looks; 0: looks once
  ci                   a job of CI: starts a run, waits for it, writes junit.xml and comment.md, and posts the
                       comment on the pull request (GITHUB_TOKEN) or merge request (GPUCREDIT_EVAL_GITLAB_TOKEN)
        as run, without --no-work, and [--folder .] [--deadline 3600] [--every 5] [--worst 5] [--no-comment]
        [--work]                                           asks models itself, as a login that may
  watch                starts a run for each version that is pushed to a watched ref, and works on it:
                       on one gate, and on one other run beside it
        [--every 10]                                       seconds between looks; 0: looks once
  observe              judges a request of production, if it is one in so many
        --stream NAME --request ID --input FILE --output FILE --rubric TEXT [--finish-reason WORD]
  feedback             takes in what a user says of an answer of production
        --stream NAME --request ID [--score 0..1] [--complaint] [--comment TEXT] [--input FILE] [--output FILE]
  add-case             makes a case of a live set from an answer of production that is kept
        --stream NAME --request ID --set NAME [--more JSON]
  gate --run N         prints what each task scores and the verdict
  junit --run N        prints JUnit XML
  comment --run N      prints the comment in Markdown [--worst 5]
  cancel --run N       ends a run
  results --run N [--format promptfoo|lm-eval|inspect]     prints results as JSON
        [--output FILE]                                    writes them; inspect: FILE.eval is a ZIP file

  --org NAME           the organisation; or GPUCREDIT_ORG
  --database URL       the database; or libpq's PG* variables

observe exits with 1 where the stream is outside its limits. The exit code of run, ci and gate is 0 for pass and warn, 1 for block, 2 for inconclusive and for
what was denied or not finished; 64 stands for a mistake in the call, 70 for an error.
`;

const OPTIONS = Object.fromEntries([
	...["org", "database", "set", "kind", "task", "documents", "filter", "match", "account", "config", "model",
		"purpose", "root", "num-fewshot", "metric", "registry", "dataset", "cap", "baseline", "options", "key", "run", "concurrency", "ttl", "timeout", "format", "every",
		"stream", "request", "input", "output", "rubric", "finish-reason", "score", "comment", "more", "folder",
		"deadline", "worst"]
		.map((name) => [name, { type: "string" }]),
	...["freeze", "print", "no-work", "work", "no-comment", "complaint", "help"].map((name) => [name, { type: "boolean" }])]);

const VERDICTS = { pass: 0, warn: 0, block: 1, inconclusive: 2 };
const UNDECIDED = 2, USAGE = 64, FAILED = 70, STOPPED = 143;
const LONGEST_STOP = 30_000;
const MOST_SECONDS = 1_000_000;
const PATIENCE = 5_000;			// how long a run without work keeps others waiting
const FORMATS = { promptfoo: fromPromptfoo, "lm-eval": importLmEval, "openai-evals": fromOpenAIEvals, inspect: fromInspect };

class Usage extends Error {}

// An option that must be there.
function need(options, name) {
	if (options[name] === undefined)
		throw new Usage(`--${name} is missing`);
	return options[name];
}

// An option that is a number.  Node's timers end at once where they are set to more
// than 2^31 milliseconds.
function number(options, name, otherwise) {
	const value = Number(options[name] ?? otherwise);

	if (options[name] === "" || !(value >= 0 && value <= MOST_SECONDS))
		throw new Usage(`--${name} is no number from 0 to ${MOST_SECONDS}`);
	return value;
}

const commands = {
	async import(database, options, [format, file]) {
		if (!Object.hasOwn(FORMATS, format ?? "") || !file)
			throw new Usage(`import needs a format (${Object.keys(FORMATS).join(", ")}) and a file`);
		const cases = await FORMATS[format](file, options);
		if (options.print)
			return print(JSON.stringify(cases, null, "\t"));
		const set = need(options, "set"), text = JSON.stringify(cases);
		const digest = createHash("sha256").update(text).digest("hex");
		if (options.kind)
			await database.value("create_set", options.org, set, options.kind, `import/set/${set}`);
		const { added, same } = await database.row("add_cases", options.org, set, text,
			options.key ?? `import/${set}/${digest}`);
		print(`${set}: ${added} cases added, ${same} were there`);
		if (options.freeze) {
			const { version, digest, cases } = await database.row("freeze_set", options.org, set, `import/${randomUUID()}`);
			print(`${set}@${version}: ${cases} cases, sha256 ${digest}`);
		}
	},

	async run(database, options) {
		const started = await database.row("start_run", options.org, need(options, "account"),
			options.key ?? randomUUID(), need(options, "config"), need(options, "model"),
			options.purpose ?? "gate", options.cap ?? "5", options.baseline ?? null, options.options ?? "{}");
		if (started.status === "denied") {
			print(`denied: ${started.reason}`);
			return UNDECIDED;
		}
		print(`run ${started.run}: ${started.cases} cases, ${started.held} credits held`);
		options.run = started.run;
		if (options["no-work"])
			return 0;
		await commands.work(database, options);
		return commands.gate(database, options);
	},

	async work(database, options) {
		if (options.run === undefined)
			return workOnAll(database, options, async () => (await database.rows("open_runs", options.org))
				.map(({ run, first }) => ({ run, first, text: `run ${run}` })));
		const state = await workOn(database, options, options.run);
		if (state !== "finished")
			printState(options.run, state);
		return state === "finished" ? 0 : UNDECIDED;
	},

	async watch(database, options) {
		return workOnAll(database, options, async () => (await database.rows("start_watched", options.org))
			.map(({ name, ref, run, reason, first }) => ({ run, first,
				text: `${name}@${ref}: ${run ? `run ${run}` : reason}` })));
	},

	async ci(database, options) {
		["account", "config", "model"].forEach((name) => need(options, name));
		const job = new CiJob(database, { ...options, deadline: number(options, "deadline", 3600),
			every: number(options, "every", 5), worst: number(options, "worst", 5) });
		const ended = onStop(() => job.stop());
		const verdict = await job.run().finally(ended);
		return verdict === undefined ? UNDECIDED : VERDICTS[verdict];
	},

	async comment(database, options) {
		const args = [options.org, need(options, "run")], worst = number(options, "worst", 5);
		const results = await database.value("results", ...args), { org, account, config, purpose } = results;
		process.stdout.write(runComment({ results, state: await database.row("run_state", ...args), worst,
			first: marker(org, account, config, purpose), secrets: secretsIn(process.env) }));
	},

	async cancel(database, options) {
		const { state } = await database.row("cancel_run", options.org, need(options, "run"), options.key ?? randomUUID());
		print(`run ${options.run} is ${state}`);
	},

	async observe(database, options) {
		const [stream, request, rubric] = ["stream", "request", "rubric"].map((name) => need(options, name));
		const input = readFileSync(need(options, "input"), "utf8"), output = readFileSync(need(options, "output"));
		const given = await database.row("start_observation", options.org, stream, request,
			JSON.stringify(input), output, rubric, options["finish-reason"] ?? null);
		if (given.status !== "granted") {
			print(given.reason ? `${given.status}: ${given.reason}` : given.status);
			return given.status === "denied" ? UNDECIDED : 0;
		}
		const samples = await new Worker(database, options.org).judgeAll(given, { rubric, input, output: output.toString() });
		const { score, z, lower, upper, signal } = await database.row("finish_observation", options.org, stream, request,
			samples.map(({ raw }) => raw), samples.map(({ usage }) => usage));
		print(score === null ? "the judge failed" : `score ${score}, mean ${z} (${lower} to ${upper})${signal ? ": drift" : ""}`);
		return score === null ? UNDECIDED : Number(signal);
	},

	async feedback(database, options) {
		const read = (name, encoding) => options[name] === undefined ? null : readFileSync(options[name], encoding);
		const input = read("input", "utf8");
		const known = await database.value("add_feedback", options.org, need(options, "stream"), need(options, "request"),
			options.score ?? null, options.comment ?? null, options.complaint ?? false,
			input === null ? null : JSON.stringify(input), read("output"));
		print(known ? "it was known" : "taken in");
	},

	async "add-case"(database, options) {
		const set = need(options, "set");
		const { name, added } = await database.row("add_case_from", options.org, need(options, "stream"),
			need(options, "request"), set, options.key ?? randomUUID(), options.more ?? "{}");
		print(`${set}: case ${name} ${added ? "added" : "was there"}`);
	},

	async gate(database, options) {
		const args = [options.org, need(options, "run")];
		const verdict = await database.value("verdict", ...args);
		print(gateTable(await database.rows("gate", ...args), await database.row("run_state", ...args), verdict));
		return VERDICTS[verdict];
	},

	async junit(database, options) {
		print(await database.value("junit", options.org, need(options, "run")));
	},

	async results(database, options) {
		const formats = { promptfoo: promptfooResults, "lm-eval": lmEvalResults, inspect: inspectLog };
		const format = options.format ?? "promptfoo";
		if (!Object.hasOwn(formats, format))
			throw new Usage(`--format is one of ${Object.keys(formats).join(", ")}`);
		const results = await database.value("results", options.org, need(options, "run"));
		const document = formats[format](results), json = `${JSON.stringify(document, null, "\t")}\n`;
		if (options.output === undefined)
			process.stdout.write(json);
		else
			writeFileSync(options.output, format === "inspect" && options.output.endsWith(".eval") ? inspectZip(document) : json);
	},
};

// Works on a run; returns its state.
async function workOn(database, options, run, more = {}) {
	const given = (name) => options[name] === undefined ? {} : { [name]: Number(options[name]) };
	const worker = new Worker(database, options.org, run,
		{ ...given("concurrency"), ...given("ttl"), ...given("timeout"), ...more });
	const ended = onStop(() => worker.stop());

	return worker.work().finally(ended);
}

function printState(run, state) {
	process.stderr.write(`gpucredit-eval: run ${run} is ${state}${
		state === "paused" ? ": its cap is used up, see raise_cap()" : ""}\n`);
}

// Works on the runs that a function finds, as it is asked again and again, in the
// order in which it finds them.  A run that is found again is not begun again while
// it is under way.  A run that fails with an error is tried again when it is found
// again, and others go on: one tenant's run ends no other tenant's.
async function workOnAll(database, options, find) {
	const every = number(options, "every", 10);
	const stopping = new AbortController();
	let code = 0;
	const work = async (run) => {
		const state = await workOn(database, options, run, every ? { patience: PATIENCE } : {});
		if (state !== "finished" && state !== "running")
			printState(run, state);
		return state === "running";
	};
	const lines = new RunLines(work, (error) => {
		printError(error);
		code = FAILED;
	});

	onStop(() => {
		stopping.abort();
		lines.stop();
	});
	do {
		await database.rows("upkeep", options.org);
		for (const { run, first, text } of await find()) {
			if (!run || !lines.has(run))
				print(text);
			if (run)
				lines.add(run, first ? "gates" : "others");
		}
		lines.begin();
		if (every)
			await sleep(every * 1000, null, { signal: stopping.signal }).catch(() => {});
	} while (every && !stopping.signal.aborted);
	await lines.end();
	return every ? 0 : code;
}

// Calls a function when the process is asked to end, which a second signal does at
// once, and half a minute later the clock: leases that are not given back by then
// end by themselves.  Returns a function that takes it back.
function onStop(stop) {
	let asked = false;
	const handler = () => {
		if (asked)
			process.exit(STOPPED);
		asked = true;
		setTimeout(() => process.exit(STOPPED), LONGEST_STOP).unref();
		stop();
	};
	const signals = ["SIGINT", "SIGTERM"];

	signals.forEach((signal) => process.on(signal, handler));
	return () => signals.forEach((signal) => process.off(signal, handler));
}

function print(text) {
	process.stdout.write(`${text}\n`);
}

function printError(error) {
	const secrets = secretsIn(process.env);
	const [message, ...more] = [error.message, error.detail, error.hint].filter(Boolean).map((one) => oneLine(mask(one, secrets)));
	process.stderr.write(`gpucredit-eval: ${[message, ...more].join("\n  ")}\n`);
}

async function main(args) {
	const { values: options, positionals: [command, ...rest] } = parse(args);

	if (options.help || !command)
		return process.stdout.write(HELP) && (options.help ? 0 : USAGE);
	if (!Object.hasOwn(commands, command))
		throw new Usage(`there is no command "${command}"`);
	options.org ??= process.env.GPUCREDIT_ORG;
	if (!options.print)
		need(options, "org");
	const database = new Database(options.database);
	try {
		return await commands[command](database, options, rest) ?? 0;
	} finally {
		await database.close();
	}
}

function parse(args) {
	try {
		return parseArgs({ args, options: OPTIONS, allowPositionals: true });
	} catch (error) {
		throw new Usage(error.message);
	}
}

main(process.argv.slice(2)).then((code) => {
	process.exitCode = code;
}, (error) => {
	printError(error);
	process.exitCode = error instanceof Usage ? USAGE : FAILED;
});
