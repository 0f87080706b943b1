// ci.mjs: a run as a job of CI: it starts, is waited for, and is reported
//
// The log has numbers and words of ours alone, as others' names could be
// commands there.  Figures, cases and reasons are in the JUnit file and in the
// comment.
import { randomUUID } from "node:crypto";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { marker, otherComment, runComment } from "./comment.mjs";
import { commitOf, postComment } from "./forge.mjs";
import { mask, oneLine, secretsIn } from "./log.mjs";
import { Worker } from "./worker.mjs";

const DEADLINE = 3600;
const EVERY = 5;
const WORDS = ["pass", "warn", "block", "inconclusive"];

export class CiJob {
	// options: as --help has them
	constructor(database, options, env = process.env) {
		Object.assign(this, { database, options, env });
		this.secrets = secretsIn(env);
		this.first = marker(options.org, options.account, options.config.replace(/@\d+$/, ""), options.purpose ?? "gate");
		this.stopping = new AbortController();
	}

	stop() {
		this.stopping.abort();
		this.worker?.stop();
	}

	// Returns the verdict, or nothing where the run was denied.
	async run() {
		this.folder = resolve(this.options.folder ?? ".");
		mkdirSync(this.folder, { recursive: true });
		try {
			return await this.measure();
		} catch (error) {		// nobody waits for the run, and a comment on an earlier commit must not stand for this one
			if (this.number !== undefined)
				await this.cancel().catch(() => {});
			await this.publish(otherComment({ ...this, commit: commitOf(this.env), head: "not decided" }));
			throw error;
		}
	}

	async measure() {
		const { org, account, config, model, purpose, cap, baseline, options, key, work } = this.options;
		const started = await this.database.row("start_run", org, account, key ?? randomUUID(), config, model,
			purpose ?? "gate", cap ?? "5", baseline ?? null, options ?? "{}");

		if (started.status === "denied") {
			this.log(`the run was denied: ${started.reason}`);
			await this.publish(otherComment({ ...this, commit: commitOf(this.env), head: "not started", reason: started.reason }));
			return undefined;
		}
		this.number = started.run;
		this.log(`run ${started.run} of ${started.cases} cases is started, ${started.held} credits are held`);
		this.write("run", `${started.run}\n`);
		this.output({ run: started.run });
		await (work ? this.work() : this.wait());
		return this.report();
	}

	// Waits until the run has ended, or nobody goes on with it.
	async wait() {
		const end = Date.now() + Number(this.options.deadline ?? DEADLINE) * 1000;
		const every = Number(this.options.every ?? EVERY) * 1000;

		while ((await this.state()).state === "running") {
			if (this.stopping.signal.aborted || Date.now() >= end)
				return this.cancel();
			await sleep(Math.min(every, Math.max(end - Date.now(), 0)), null, { signal: this.stopping.signal }).catch(() => {});
		}
		return undefined;
	}

	// Asks models and judges itself, as a login that may.
	async work() {
		if (this.stopping.signal.aborted)
			return this.cancel();
		this.worker = new Worker(this.database, this.options.org, this.number);
		const limit = setTimeout(() => this.worker.stop(), Number(this.options.deadline ?? DEADLINE) * 1000);
		const state = await this.worker.work().finally(() => clearTimeout(limit));
		const { endpoint, judge_endpoint: judge } = this.worker.spec;

		this.secrets = secretsIn(this.env, [endpoint?.secret, judge?.secret]);
		return state === "running" ? this.cancel() : undefined;
	}

	state() {
		return this.database.row("run_state", this.options.org, this.number);
	}

	async cancel() {
		const { state } = await this.database.row("cancel_run", this.options.org, this.number, randomUUID());
		this.log(`nobody waits for the run any longer: it is ${state}`);
	}

	async report() {
		const args = [this.options.org, this.number];
		const [state, results, junit] = [await this.state(), await this.database.value("results", ...args),
			await this.database.value("junit", ...args)];
		const verdict = WORDS.includes(results.verdict) ? results.verdict : "inconclusive";

		this.output({ verdict, junit: this.write("junit.xml", this.masked(junit)), comment: join(this.folder, "comment.md") });
		await this.publish(runComment({ ...this, results, state, commit: commitOf(this.env),
			worst: Number(this.options.worst ?? 5) }));
		this.log(`verdict: ${verdict}; the run is ${state.state}`);
		return verdict;
	}

	// Also as XML has it.
	masked(xml) {
		const escape = (one) => one.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

		return mask(mask(xml, this.secrets), this.secrets.map(escape));
	}

	async publish(comment) {
		this.write("comment.md", comment);
		if (this.env.GITHUB_STEP_SUMMARY)
			appendFileSync(this.env.GITHUB_STEP_SUMMARY, comment);
		if (this.options["no-comment"])
			return;
		const why = await postComment(this.env, comment, this.first);
		this.log(why === undefined ? "the comment is posted" : `no comment is posted: ${why}`);
	}

	// A file that is new, whatever lay there: a link would lead elsewhere.
	write(name, text) {
		const path = join(this.folder, name);

		rmSync(path, { force: true });
		writeFileSync(path, text, { flag: "wx" });
		return path;
	}

	// Outputs of the step.
	output(values) {
		if (this.env.GITHUB_OUTPUT)
			appendFileSync(this.env.GITHUB_OUTPUT,
				Object.entries(values).map(([name, value]) => `${name}=${oneLine(value)}\n`).join(""));
	}

	log(text) {
		process.stdout.write(`gpucredit-eval: ${oneLine(mask(text, this.secrets))}\n`);
	}
}
