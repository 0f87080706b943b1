// worker.mjs: works on a run until it ends
//
// It keeps nothing: when it dies, other workers lease again what it has not
// reported.  When it is stopped it gives its leases back: those whose request
// was not sent cost nothing, and calls under way have GRACE to be answered.
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { chat, embed, Refused, scoreText, Stopped, unlessStopped } from "./endpoint.mjs";
import { harnessDigest } from "./harness.mjs";
import { Pacer } from "./pacer.mjs";
import { Sandbox } from "./sandbox.mjs";
import { cosine, isSimilarity, textsOf } from "./similarity.mjs";

const MOST_OUTPUT = 1024 * 1024;
const NOTHING = { prompt_tokens: 0, completion_tokens: 0 };
const CUT = "the answer was cut off at max_tokens";
const IDLE = 200;
const EMBEDDED_AT_ONCE = 16;	// so that an answer with long vectors is not too long
const GRACE = 10_000;

// SQLSTATEs of what a call cannot have as an argument: its value, or its size.
const REFUSED = /^(22|54)/;

// Somebody waits for a gate or a preview, and nobody for a nightly run.
export const isGate = (purpose) => /gate$|^preview$/.test(purpose);

export class Worker {
	constructor(database, org, run, { concurrency = 16, ttl = 120, timeout = 60, grace = GRACE, patience = Infinity } = {}) {
		Object.assign(this, { database, org, run, concurrency, ttl, timeout, grace, patience });
		this.name = `${hostname()}/${process.pid}`;
		this.stopped = false;
		this.stopping = new AbortController();	// no request is sent any more
		this.ending = new AbortController();	// and none is waited for
		setMaxListeners(0, this.stopping.signal, this.ending.signal);	// each call under way listens
		this.sandbox = new Sandbox();
	}

	// Returns the run's state: finished, cancelled, paused, or running if it
	// was stopped, or had nothing to do for longer than its patience.
	async work() {
		this.spec = await this.database.value("run_spec", this.org, this.run);
		this.model = this.caller(this.spec.endpoint, this.spec.model);
		this.scorer = this.textScorer(this.spec.endpoint, this.spec.model);
		this.embedder = this.spec.embedding_endpoint && this.textEmbedder(this.spec.embedding_endpoint);
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
	// has only its share, has answered all of them before their leases end.  A gate
	// counts as another run while its account has another gate.
	fitting() {
		const shareOf = ({ gate_share }) => isGate(this.spec.purpose) ? Math.min(gate_share, 1 - gate_share) : 1 - gate_share;
		const slowest = Math.min(...[this.spec.endpoint, this.spec.judge_endpoint, this.spec.embedding_endpoint]
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
		let idle = 0;

		while (!this.stopped && idle <= this.patience) {
			while (busy.size > this.concurrency * 3 / 4)
				await Promise.race(busy);
			const room = this.concurrency - busy.size;
			const leased = await this.database.rows("lease_cases", this.org, this.run, this.name, room,
				`${this.ttl} s`, harnessDigest());
			for (const one of leased) {
				const done = this.do(one).finally(() => busy.delete(done));
				busy.add(done);
			}
			idle = busy.size > 0 ? 0 : idle + IDLE;
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
		const shared = this.sharedOf(terms);

		return (messages, deadline, more = {}) => chat({ ...shared, url: completions(terms.url),
			body: { ...fixed, ...more, messages }, deadline });
	}

	// A function that asks an endpoint how likely a text is.
	textScorer(terms, { seed }) {
		const shared = this.sharedOf(terms);

		return (text, deadline) => scoreText({ ...shared, ...text, url: completions(terms.url, "completions"),
			body: { model: terms.model, seed }, deadline });
	}

	// A function that has an endpoint make vectors of texts.
	textEmbedder(terms) {
		const shared = this.sharedOf(terms);

		return (texts, deadline) => embed({ ...shared, texts, url: completions(terms.url, "embeddings"),
			body: { model: terms.model }, deadline });
	}

	// What all calls of an endpoint have in common.
	sharedOf(terms) {
		const pacer = terms.max_rps && new Pacer(async (n) => {
			const { wait, every, granted } = await this.database.row("pace", this.org, terms.endpoint, n, this.run ?? null);
			return { wait: milliseconds(wait), every: milliseconds(every), granted };
		});

		return { secret: terms.secret, timeout: this.timeout * 1000, stopping: this.stopping.signal, ending: this.ending.signal,
			pace: pacer ? () => pacer.next() : undefined };
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
			const answer = await this.compared(await this.ask(input, checks, deadline), checks, deadline);
			if (await this.reportAnswer(number, attempt, answer, checks, parameters.threshold) !== "judge")
				return;
			if (isCut(answer.call) && checks.length === 0)
				return void await Promise.all((parameters.samples ?? [])
					.map((sample) => this.reportSample(number, sample, Buffer.from(JSON.stringify({ score: 1, reason: CUT })), NOTHING)));
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
		if (checks.some(({ type }) => type === "multiple_choice" || type === "loglikelihood"))
			return this.scoreTexts(input.requests, deadline);
		try {
			const messages = await this.messages(input);
			const until = checks.find(({ until }) => until)?.until;
			const { output, usage, latencyMs, finishReason } = await this.model(messages, deadline,
				until ? { stop: until.slice(0, 4) } : {});
			if (Buffer.byteLength(output) > MOST_OUTPUT)
				return { usage, checks: { error: `an output of more than ${MOST_OUTPUT} bytes` } };
			return { output, usage, call: { latencyMs, finishReason, cost: costOfUsage(usage, this.spec.endpoint) } };
		} catch (error) {
			if (error instanceof Stopped)
				throw error;
			return { usage: costOf(error), checks: { error: error.message } };
		}
	}

	// How likely each text of a case is, as the output; one after the other, so that
	// after the first that fails no further one is paid for.
	async scoreTexts(texts, deadline) {
		const usage = { ...NOTHING }, scores = [];
		let isKnown = true, sent = false;

		try {
			for (const text of texts) {
				const { logprobs, greedy, problem, lacking, usage: own } = await this.scorer(text, deadline);
				sent = true;
				isKnown &&= own !== null;
				usage.prompt_tokens += own?.prompt_tokens ?? 0;
				usage.completion_tokens += own?.completion_tokens ?? 0;
				if (problem ?? lacking)
					return { usage: isKnown ? usage : null, checks: { error: problem ?? lacking } };
				scores.push({ logprob: logprobs.reduce((sum, one) => sum + one, 0), tokens: logprobs.length, greedy });
			}
			return { output: JSON.stringify(scores), usage: isKnown ? usage : null, call: {} };
		} catch (error) {
			if (error instanceof Stopped)
				throw new Stopped(error.sent || sent);
			return { usage: error instanceof Refused && isKnown ? usage : null, checks: { error: error.message } };
		}
	}

	// An answer with its similarity to the texts of its checks, where they ask for it.
	// Its usage has what that cost, too.
	async compared(answer, checks, deadline) {
		const { output, usage, call } = answer;

		if (!output || !checks.some(isSimilarity) || isCut(call))
			return answer;
		const most = this.spec.embedding.max_response_bytes;
		if (Buffer.byteLength(output) > most)
			return { usage, checks: { error: `the answer has more than ${most} bytes, which "embedding" of the config allows` } };
		const texts = textsOf(checks);
		const { vectors, tokens, error } = await this.vectorsOf([output, ...texts], deadline);
		const all = usage && tokens !== null ? { ...usage, embedding: { prompt_tokens: tokens } } : null;
		if (error)
			return { usage: all, checks: { error } };
		return { output, usage: all, call: { ...call,
			similarities: texts.map((text, i) => [text, cosine(vectors[0], vectors[i + 1])]) } };
	}

	// The vectors of texts, or the error that kept some from being made; tokens: how
	// many were read, null if that is not known.
	async vectorsOf(texts, deadline) {
		const vectors = [];
		let tokens = 0;

		try {
			for (let at = 0; at < texts.length; at += EMBEDDED_AT_ONCE) {
				const made = await this.embedder(texts.slice(at, at + EMBEDDED_AT_ONCE), deadline);
				tokens = tokens === null || made.usage === null ? null : tokens + made.usage.prompt_tokens;
				if (made.problem ?? (at && made.vectors[0].length !== vectors[0].length))
					return { tokens, error: made.problem ?? "the embedding model's vectors have different lengths" };
				vectors.push(...made.vectors);
			}
			return { vectors, tokens };
		} catch (error) {
			if (error instanceof Stopped)		// the model's own call was made
				throw new Stopped(true);
			return { tokens: error instanceof Refused ? tokens : null, error: `the embedding model: ${error.message}` };
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
	async reportAnswer(number, attempt, { output, usage, call, checks: why }, checks, threshold) {
		const report = async (output, results) => (await this.database.row("report", this.org, this.run, number, attempt,
			output === undefined ? null : Buffer.from(output), JSON.stringify(results),
			usage && JSON.stringify(usage))).action;

		if (output === undefined)
			return report(output, why);
		try {
			return await report(output, await this.checked(checks, output, threshold, call));
		} catch (error) {
			if (!REFUSED.test(error.code ?? ""))
				throw error;
			return report(undefined, { error: `the report is refused: ${error.message}` });
		}
	}

	// The checks' results.  One that could not be decided fails the whole case, and
	// so does an answer that was cut off, unless a check is about that.
	async checked(checks, output, threshold, call) {
		try {
			const { results, pass } = await unlessStopped(this.sandbox.run("checks", { checks, output, threshold, call }),
				this.ending.signal, true);
			if (isCut(call) && !checks.some(({ type }) => /finish-reason$/.test(type)))
				return results.map((one) => ({ ...one, pass: false, score: 0, error: CUT }));
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

// A URL may name the server, its /v1, a deployment of Azure, or the whole path.
// Azure's version of its API comes after the path.
export function completions(url, kind = "chat/completions") {
	const [, whole, version] = /^(.*?)\/*(\?.*)?$/.exec(url);
	const path = whole.replace(/\/chat\/completions$/, "");
	const rest = path !== whole || /\/v1$|\/openai\/deployments\/[^/]+$/.test(path) ? "" : "/v1";

	return `${path}${rest}/${kind}${version ?? ""}`;
}

// Whether an answer ends because it has as many tokens as it may have.
function isCut(call) {
	return /^(length|max_tokens)$/i.test(call?.finishReason ?? "");
}

// What a call cost in credits by the endpoint's prices of a million tokens;
// undefined where that is not known.
function costOfUsage(usage, { price_in, price_out }) {
	return usage ? (usage.prompt_tokens * price_in + usage.completion_tokens * price_out) / 1e6 : undefined;
}

// Only a call that was refused surely cost nothing.  Any other, and one that
// failed in a way that nobody foresaw, may have cost all that was set aside for
// it: its usage is NULL.
function costOf(error) {
	return error instanceof Refused || error instanceof Stopped && !error.sent ? NOTHING : null;
}
