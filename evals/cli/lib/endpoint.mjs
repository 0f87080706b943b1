// endpoint.mjs: one call of an OpenAI-compatible endpoint
//
// A call that surely cost nothing is tried again here: 429, 503, a connection
// that was never made, as its host has no address, is not there or refuses.  A
// call that may have cost something is not, as only one call is paid for: it
// throws Lost, and the case's next attempt pays again.  A call that cost nothing
// and that would not do better throws Refused: a certificate that is not valid,
// or status 401.
import { setTimeout as sleep } from "node:timers/promises";

const MAX_BYTES = 4 * 1024 * 1024;
const MAX_REDIRECTS = 3;
const MOST_TOKENS = 1_000_000_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;

// What keeps a connection from being made, so that no request was sent.  A
// connection that breaks later has other codes, or none.
const UNREACHED = /^(ECONNREFUSED|ENOTFOUND|EAI_[A-Z]+|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT)$/;
const UNTRUSTED = new RegExp("^(CERT_.*|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_.*|"
	+ "HOSTNAME_MISMATCH|ERR_TLS_CERT_.*|ERR_TLS_HANDSHAKE_TIMEOUT|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_UNSUPPORTED_PROTOCOL|EPROTO)$");

// The call may have been answered and billed, but no answer came.
export class Lost extends Error {}

// The worker was stopped; sent: while a request was under way, which may be billed.
export class Stopped extends Error {
	constructor(sent) {
		super("the worker was stopped");
		this.sent = sent;
	}
}

// The call cost nothing, and trying again now would not help.
export class Refused extends Error {}

// Models that take the bound of an answer under its newer name only: endpoint and
// model, as far as calls have shown.
const namedNewly = new Set();

// Calls POST url and returns { output, usage, finishReason, latencyMs }: the text, the
// tokens that the endpoint says it used, null where it does not, why the text ends,
// and how long the request that was answered took.
//
//   secret    the name of the environment variable with the key, if one is needed
//   body      model, messages, ...
//   deadline  when to give up (ms since 1970); pace waits for the next slot
//   stopping  aborted: no request is sent any more; ending: none is waited for
export const chat = (request) => call({ ...request, read: readChat });

// Calls /v1/completions for how likely a text is after another, and returns { tokens,
// logprobs, greedy, usage }: of the tokens of the continuation the logarithms of
// their probabilities, and whether each was the likeliest.
export async function scoreText({ context, continuation, body, ...request }) {
	const target = `${request.url} ${body.model}`;

	if (withoutLogprobs.has(target))
		throw new Refused(NO_LOGPROBS);
	return call({ ...request, body: { ...body, prompt: context + continuation, max_tokens: 1, temperature: 0, logprobs: 1, echo: true },
		read(answer) {
			const scores = readLogprobs(answer?.choices?.[0], context, continuation);
			if (scores === null)
				withoutLogprobs.add(target);
			return { ...scores, usage: usageOf(answer?.usage), ...scores === null ? { lacking: NO_LOGPROBS } : {} };
		} });
}

// Calls /v1/embeddings and returns { vectors, usage }: a vector for each text, or
// "problem" where the answer has none, and { prompt_tokens }, null where it is not said.
export const embed = ({ texts, body, ...request }) => call({ ...request, body: { ...body, input: texts, encoding_format: "float" },
	read: (answer) => readEmbeddings(answer, texts.length) });

const NO_LOGPROBS = "the endpoint returns no logprobs of the prompt: it needs \"echo\" and \"logprobs\" of /v1/completions";

// Endpoints and models that have answered without logprobs: they are not asked, and
// paid for, again.
const withoutLogprobs = new Set();

async function call({ url, secret, body, deadline, timeout = 60_000, pace = async () => {}, stopping, ending, read }) {
	const headers = { "content-type": "application/json" };

	if (secret) {
		if (!process.env[secret])
			throw new Refused(`environment variable ${secret} is not set`);
		Object.assign(headers, isAzure(url) ? { "api-key": process.env[secret] }
			: { authorization: `Bearer ${process.env[secret]}` });
	}
	const target = `${url} ${body.model}`;
	for (let tried = 0; ; tried++) {
		await unlessStopped(pace(), stopping);
		const left = deadline - Date.now();
		const sentAt = Date.now();
		const answer = left <= 0 ? { again: "no time is left" }
			: await post(url, headers, JSON.stringify(namedNewly.has(target) ? newNames(body) : body),
				Math.min(timeout, left), ending, read);
		if (answer.refused) {
			// A reasoning model refuses "max_tokens", at no cost.
			if (answer.refused !== "unsupported_parameter max_tokens" || namedNewly.has(target))
				throw new Refused(`status 400: ${answer.refused}`);
			namedNewly.add(target);
			continue;
		}
		if (!answer.again)
			return { ...answer, latencyMs: Date.now() - sentAt };
		const wait = Math.max(answer.after ?? 0, backoff(tried));
		if (Date.now() + wait >= deadline)
			throw new Refused(answer.again);
		await unlessStopped(sleep(wait), stopping);
	}
}

function newNames({ max_tokens, ...body }) {
	return max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens };
}

function isAzure(url) {
	return new URL(url).hostname.endsWith(".azure.com");
}

// Waits for a promise, but no longer than until the signal comes; sent: is a call
// lost then?
export async function unlessStopped(promise, stopping, sent = false) {
	if (!stopping)
		return promise;
	let stop;

	try {
		return await Promise.race([promise, new Promise((_, reject) => {
			stop = () => reject(new Stopped(sent));
			if (stopping.aborted)
				stop();
			stopping.addEventListener("abort", stop);
		})]);
	} finally {
		stopping.removeEventListener("abort", stop);
		promise.catch(() => {});
	}
}

function backoff(tried) {
	const most = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** tried);

	return most / 2 + Math.random() * most / 2;
}

// Milliseconds of a Retry-After: seconds or a date.
export function retryAfter(value, now = Date.now()) {
	if (!value)
		return 0;
	const ms = /^\s*\d+(\.\d+)?\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
	return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}

async function post(url, headers, body, timeout, ending, read) {
	const limit = AbortSignal.timeout(timeout);
	const signal = ending ? anyOf(limit, ending) : limit;
	let response, text;

	try {
		response = await follow(url, { method: "POST", headers, body, signal });
		text = await readBody(response);
	} catch (error) {
		if (error instanceof Refused)
			throw error;
		if (error.cause?.message === "bad port")
			throw new Refused("no request is sent to a port of another protocol");
		const codes = codesOf(error);
		if (codes.length > 0 && codes.every((code) => UNREACHED.test(code)))
			return { again: `the endpoint is not reached: ${codes[0]}` };
		if (codes.length > 0 && codes.every((code) => UNTRUSTED.test(code)))
			throw new Refused(`no TLS with the endpoint: ${codes[0]}`);
		if (ending?.aborted)
			throw new Stopped(true);
		throw new Lost(limit.aborted ? `no answer within ${timeout} ms`
			: `the connection broke: ${error.cause?.code ?? error.message}`);
	}
	if (response.status === 429 || response.status === 503)
		return { again: `status ${response.status}`, after: retryAfter(response.headers.get("retry-after")) };
	if (response.status >= 500)
		throw new Lost(`status ${response.status}`);
	const why = response.status === 400 && reasonOf(text);
	if (why)
		return { refused: why };
	if (response.status !== 200)
		throw new Refused(`status ${response.status}`);
	return read(parseAnswer(text));
}

// AbortSignal.any(), which Node 18 does not have.
function anyOf(...signals) {
	const either = new AbortController();

	for (const signal of signals) {
		if (signal.aborted)
			either.abort();
		signal.addEventListener("abort", () => either.abort(), { once: true, signal: either.signal });
	}
	return either.signal;
}

// The codes of what failed.  A host with several addresses fails once for each.
function codesOf({ cause }) {
	return (cause?.errors ?? [cause]).map((one) => one?.code).filter((code) => typeof code === "string");
}

// Redirects are followed only within the origin: another host would see the
// input, and the key.
async function follow(url, request) {
	for (let n = 0; n <= MAX_REDIRECTS; n++) {
		const response = await fetch(url, { ...request, redirect: "manual" });
		if (response.status < 300 || response.status > 399)
			return response;
		await response.body?.cancel();
		const next = new URL(response.headers.get("location") ?? "", url);
		if (next.origin !== new URL(url).origin)
			throw new Refused("the endpoint redirects to another host");
		if (response.status !== 307 && response.status !== 308)
			throw new Refused(`status ${response.status}: only 307 and 308 keep a request as it is`);
		url = next.href;
	}
	throw new Refused(`more than ${MAX_REDIRECTS} redirects`);
}

async function readBody(response) {
	const parts = [];
	let size = 0;

	for await (const part of response.body ?? []) {
		size += part.length;
		if (size > MAX_BYTES)
			throw new Lost(`an answer of more than ${MAX_BYTES} bytes`);
		parts.push(part);
	}
	return Buffer.concat(parts).toString("utf8");
}

// The code of an error and the parameter that it is about, as in
// {"error": {"code": "unsupported_value", "param": "temperature"}}; null without a
// code.  The message may repeat the prompt, so it is left out.
function reasonOf(text) {
	try {
		const { code, param } = JSON.parse(text).error;
		const words = [code, param].filter((word) => /^[a-z_][a-z0-9_.]{0,63}$/.test(word));

		return typeof code === "string" && words.length > 0 ? words.join(" ") : null;
	} catch {
		return null;
	}
}

function parseAnswer(text) {
	try {
		return JSON.parse(text);
	} catch {
		throw new Lost("the answer is cut or no JSON");
	}
}

function readChat(answer) {
	const message = answer?.choices?.[0]?.message;
	const content = textOf(message);
	if (content === null)
		throw new Lost("the answer has no choices[0].message.content");
	const finish = message.refusal ? "refusal" : answer.choices[0].finish_reason;
	return { output: content, usage: usageOf(answer.usage), ...typeof finish === "string" ? { finishReason: finish } : {} };
}

// What a model answered: its text, in one piece or several, or else the tools that
// it calls, as JSON, or why it refuses to answer; null for none of these.
function textOf({ content, tool_calls: calls, refusal } = {}) {
	if (typeof content === "string" && content !== "")
		return content;
	if (Array.isArray(content) && content.length > 0 && content.every(({ text }) => typeof text === "string"))
		return content.map(({ text }) => text).join("");
	if (Array.isArray(calls) && calls.length > 0)
		return JSON.stringify(calls);
	if (typeof refusal === "string" && refusal !== "")
		return refusal;
	return typeof content === "string" ? content : null;
}

const isCount = (n) => Number.isInteger(n) && n >= 0 && n <= MOST_TOKENS;

// Whole tokens, or null: a made-up figure would be billed.
function usageOf(usage) {
	const { prompt_tokens, completion_tokens } = usage ?? {};

	return isCount(prompt_tokens) && isCount(completion_tokens) ? { prompt_tokens, completion_tokens } : null;
}

function readEmbeddings(answer, n) {
	const { prompt_tokens } = answer?.usage ?? {};
	const usage = isCount(prompt_tokens) ? { prompt_tokens } : null;
	const vectors = new Array(n);

	for (const [at, { index = at, embedding } = {}] of (Array.isArray(answer?.data) ? answer.data : []).entries())
		if (Array.isArray(embedding) && embedding.length > 0 && embedding.every(Number.isFinite))
			vectors[index] = embedding;
	return vectors.length === n && !vectors.includes(undefined) && vectors.every(({ length }) => length === vectors[0].length)
		? { vectors, usage } : { problem: "the answer has no vector for each text, all of one length", usage };
}

// The logprobs of the tokens that make up a continuation; null where the answer has
// none of the prompt.  Spaces at the end of the context count as the continuation's,
// as in lm-eval.  So does a token that begins in the context and ends in the
// continuation: without it, the continuation's beginning would cost nothing.  Before
// the prompt the answer may have a token for the beginning of a text, and after it the
// one that it generated.
function readLogprobs(choice, context, continuation) {
	const { tokens, token_logprobs: logprobs, top_logprobs: top } = choice?.logprobs ?? {};
	const prompt = context + continuation;

	if (!Array.isArray(tokens) || !Array.isArray(logprobs) || tokens.length !== logprobs.length || !tokens.every((one) => typeof one === "string"))
		return null;
	const n = [tokens.length - 1, tokens.length].find((end) => tokens.slice(0, end).join("").endsWith(prompt));
	if (n === undefined)
		return tokens.length > 2 ? { problem: "the tokens of the answer do not add up to the prompt" } : null;
	const first = tokens.slice(0, n).join("").length - prompt.length + context.trimEnd().length;
	let end = 0;
	const at = tokens.slice(0, n).findIndex((token) => (end += token.length) > first);
	const own = logprobs.slice(at, n);
	if (!own.every((one) => Number.isFinite(one)))
		return { problem: "a token of the continuation has no logprob: without a context, the model has to have a token for the beginning of a text" };
	const best = (top ?? []).slice(at, n).map((one) => Math.max(...Object.values(one ?? {})));
	return { tokens: tokens.slice(at, n), logprobs: own,
		greedy: best.length === own.length && best.every(Number.isFinite) ? own.every((one, i) => one >= best[i]) : null };
}
