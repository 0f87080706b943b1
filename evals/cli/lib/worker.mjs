// worker.mjs: works on a run until it ends
//
// It keeps nothing: when it dies, other workers lease again what it has not
// reported.  When it is stopped it gives its leases back: those whose request
// was not sent cost nothing, and calls under way have GRACE to be answered.
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { chat, Refused, Stopped, unlessStopped } from "./endpoint.mjs";
import { Pacer } from "./pacer.mjs";
import { Sandbox } from "./sandbox.mjs";

const MOST_OUTPUT = 1024 * 1024;
const NOTHING = { prompt_tokens: 0, completion_tokens: 0 };
const IDLE = 200;
const GRACE = 10_000;

// SQLSTATEs of what a call cannot have as an argument: its value, or its size.
const REFUSED = /^(22|54)/;

// Somebody waits for a gate, and nobody for a nightly run.
export const isGate = (purpose) => /gate$/.test(purpose);

export class Worker {
	constructor(database, org, run, { concurrency = 16, ttl = 120, timeout = 60, grace = GRACE } = {}) {
		Object.assign(this, { database, org, run, concurrency, ttl, timeout, grace });
		this.name = `${hostname()}/${process.pid}`;
		this.stopped = false;
		this.stopping = new AbortController();	// no request is sent any more
		this.ending = new AbortController();	// and none is waited for
		this.sandbox = new Sandbox();
	}

	// Returns the run's state: finished, cancelled, paused, or running if it
	// was stopped.
	async work() {
		this.spec = await this.database.value("run_spec", this.org, this.run);
		this.model = this.caller(this.spec.endpoint, this.spec.model);
		this.judge = this.spec.judge && this.caller(this.spec.judge_endpoint, this.spec.judge);
		this.concurrency = Math.min(this.concurrency, this.fitting());
		try {
			await this.keepLeased();
		} finally {
			clearTimeout(this.graceTimer);
			this.sandbox.close();
		}
		return this.stopped ? "running" : (await this.state()).state;
	}

	stop() {
		if (this.stopped)
			return;
		this.stopped = true;
		this.stopping.abort();
		this.graceTimer = setTimeout(() => this.ending.abort(), this.grace);
	}

	state() {
		return this.database.row("run_state", this.org, this.run);
	}

	// How many cases may be under way, so that a slow endpoint, of which the run
	// has only its share, has answered all of them before their leases end.
	fitting() {
		const shareOf = ({ gate_share }) => isGate(this.spec.purpose) ? gate_share : 1 - gate_share;
		const slowest = Math.min(...[this.spec.endpoint, this.spec.judge_endpoint]
			.map((terms) => terms?.max_rps ? terms.max_rps * shareOf(terms) : Infinity));
		return Math.max(1, Math.floor(slowest * this.ttl / 2 / (1 + (this.spec.judge?.samples ?? 0))));
	}

	// Leases cases, several at once, as others finish.  An error with one of them
	// stops the worker, and is thrown when the others are reported or given back.
	async keepLeased() {
		const busy = new Set();

		try {
			await this.leaseInto(busy);
			await Promise.all(busy);
		} catch (error) {
			this.stop();
			await Promise.allSettled(busy);
			throw error;
		}
	}

	async leaseInto(busy) {
		while (!this.stopped) {
			while (busy.size > this.concurrency * 3 / 4)
				await Promise.race(busy);
			const room = this.concurrency - busy.size;
			const leased = await this.database.rows("lease_cases", this.org, this.run, this.name, room,
				`${this.ttl} s`);
			for (const one of leased) {
				const done = this.do(one).finally(() => busy.delete(done));
				busy.add(done);
			}
			if (busy.size > 0)
				await Promise.race(leased.length ? busy : [...busy, sleep(IDLE)]);
			else if ((await this.state()).state !== "running")
				break;
			else
				await sleep(IDLE);
		}
	}

	// A function that calls an endpoint with a role's parameters.
	caller(terms, role) {
		const { temperature, seed, max_tokens, top_p, stop, response_format, parameters } = role;
		const fixed = { ...parameters, model: terms.model, temperature, seed, max_tokens,
			...top_p === undefined ? {} : { top_p }, ...stop === undefined ? {} : { stop },
			...response_format === undefined ? {} : { response_format } };
		const pacer = terms.max_rps && new Pacer(async (n) => {
			const { wait, every, granted } = await this.database.row("pace", this.org, terms.endpoint, n, this.run ?? null);
			return { wait: milliseconds(wait), every: milliseconds(every), granted };
		});

		return (messages, deadline, more = {}) => chat({ url: completions(terms.url), secret: terms.secret,
			body: { ...fixed, ...more, messages }, deadline, timeout: this.timeout * 1000,
			stopping: this.stopping.signal, ending: this.ending.signal,
			pace: pacer ? () => pacer.next() : undefined });
	}

	// Works on a case; if it is stopped meanwhile, gives the lease back.
	async do(one) {
		try {
			await this.measure(one);
		} catch (error) {
			if (!(error instanceof Stopped))
				throw error;
			await this.database.row("release_case", this.org, this.run, one.case, one.attempt, error.sent);
		}
	}

	async measure({ case: number, attempt, input, checks, parameters }) {
		const deadline = Date.now() + this.ttl * 900;
		let output = parameters.output && Buffer.from(parameters.output, "base64").toString("utf8");

		if (output === undefined) {
			const answer = await this.ask(input, checks, deadline);
			if (await this.reportAnswer(number, attempt, answer, checks, parameters.threshold) !== "judge")
				return;
			output = answer.output;
		}
		const samples = parameters.samples ?? [];
		let messages;
		try {
			messages = await unlessStopped(this.sandbox.run("judgePrompt",
				{ ...parameters, input, output, judge: this.spec.judge }), this.stopping.signal);
		} catch (error) {		// the judge's template is at fault, each time
			if (error instanceof Stopped)
				throw error;
			return samples.length && this.reportSample(number, samples[0], null, NOTHING);
		}
		const failed = (await Promise.all(samples
			.map((sample) => this.sample(number, sample, messages, deadline)))).filter(Boolean);
		const stopped = failed.find(({ error }) => error instanceof Stopped);
		if (stopped)			// samples that were sent and not answered count in full
			throw new Stopped(failed.some(({ usage }) => usage === null));
		if (failed.length > 0)		// after all others, as it ends the lease
			await this.reportSample(number, failed[0].sample, null,
				failed.some(({ usage }) => usage === null) ? null : NOTHING);
	}

	// The model's output and usage; without output, "checks" says why.
	async ask(input, checks, deadline) {
		try {
			const messages = await this.messages(input);
			const until = checks.find(({ until }) => until)?.until;
			const { output, usage } = await this.model(messages, deadline, until ? { stop: until.slice(0, 4) } : {});
			if (Buffer.byteLength(output) > MOST_OUTPUT)
				return { usage, checks: { error: `an output of more than ${MOST_OUTPUT} bytes` } };
			return { output, usage };
		} catch (error) {
			if (error instanceof Stopped)
				throw error;
			return { usage: costOf(error), checks: { error: error.message } };
		}
	}

	// The case's messages, which nothing has been paid for yet.
	async messages(input) {
		const { template, model: { max_input_tokens: declared } } = this.spec;

		try {
			return await unlessStopped(this.sandbox.run("casePrompt", { input, template, declared }), this.stopping.signal);
		} catch (error) {
			if (error instanceof Stopped)
				throw error;
			throw new Refused(`the template fails: ${error.message}`);
		}
	}

	// Reports what the model answered, and returns what to do next.  Where the
	// database refuses the checks' results, for example as a case has too many, the
	// case is at fault: it fails, and the worker goes on with others.
	async reportAnswer(number, attempt, { output, usage, checks: why }, checks, threshold) {
		const report = async (output, results) => (await this.database.row("report", this.org, this.run, number, attempt,
			output === undefined ? null : Buffer.from(output), JSON.stringify(results),
			usage && JSON.stringify(usage))).action;

		if (output === undefined)
			return report(output, why);
		try {
			return await report(output, await this.checked(checks, output, threshold));
		} catch (error) {
			if (!REFUSED.test(error.code ?? ""))
				throw error;
			return report(undefined, { error: `the report is refused: ${error.message}` });
		}
	}

	// The checks' results.  One that could not be decided fails the whole case.
	async checked(checks, output, threshold) {
		try {
			const { results, pass } = await unlessStopped(this.sandbox.run("checks", { checks, output, threshold }),
				this.ending.signal, true);
			return results.some(({ error }) => error) ? results.map((one) => ({ ...one, pass, score: 0 })) : results;
		} catch (error) {
			if (error instanceof Stopped)
				throw error;
			return checks.map(({ type }) => ({ type, pass: false, score: 0, error: error.message }));
		}
	}

	// One sample of the judge; returns what failed, to be reported last.
	async sample(number, sample, messages, deadline) {
		let answer;

		try {
			answer = await this.judge(messages, deadline, { seed: this.spec.judge.seed + sample - 1 });
		} catch (error) {
			return { sample, error, usage: costOf(error) };
		}
		await this.reportSample(number, sample, Buffer.from(answer.output), answer.usage);
		return null;
	}

	// All samples of a judge for one answer: each text with its usage.
	async judgeAll({ judge, judge_endpoint: terms }, asked) {
		const call = this.caller(terms, judge);
		const messages = await this.sandbox.run("judgePrompt", { ...asked, judge }).finally(() => this.sandbox.close());
		const deadline = Date.now() + this.ttl * 1000;

		return Promise.all(Array.from({ length: judge.samples }, async (_, i) => {
			try {
				const { output, usage } = await call(messages, deadline, { seed: judge.seed + i });
				return { raw: Buffer.from(output), usage: usage && JSON.stringify(usage) };
			} catch (error) {
				const usage = costOf(error);
				return { raw: null, usage: usage && JSON.stringify(usage) };
			}
		}));
	}

	reportSample(number, sample, raw, usage) {
		return this.database.row("report_judge", this.org, this.run, number, sample, raw, usage && JSON.stringify(usage));
	}
}

// The driver's interval.
function milliseconds({ days = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0 }) {
	return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds;
}

// A URL may name the server, its /v1, or the whole path.
export function completions(url) {
	const base = url.replace(/\/+$/, "");

	if (base.endsWith("/chat/completions"))
		return base;
	return base.endsWith("/v1") ? `${base}/chat/completions` : `${base}/v1/chat/completions`;
}

// Only a call that was refused surely cost nothing.  Any other, and one that
// failed in a way that nobody foresaw, may have cost all that was set aside for
// it: its usage is NULL.
function costOf(error) {
	return error instanceof Refused || error instanceof Stopped && !error.sent ? NOTHING : null;
}
