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

// Calls POST url and returns { output, usage }: the text, and the tokens that
// the endpoint says it used, null where it does not.
//
//   secret    the name of the environment variable with the key, if one is needed
//   body      model, messages, ...
//   deadline  when to give up (ms since 1970); pace waits for the next slot
//   stopping  aborted: no request is sent any more; ending: none is waited for
export async function chat({ url, secret, body, deadline, timeout = 60_000, pace = async () => {}, stopping, ending }) {
	const headers = { "content-type": "application/json" };

	if (secret) {
		if (!process.env[secret])
			throw new Refused(`environment variable ${secret} is not set`);
		headers.authorization = `Bearer ${process.env[secret]}`;
	}
	for (let tried = 0; ; tried++) {
		await unlessStopped(pace(), stopping);
		const left = deadline - Date.now();
		const answer = left <= 0 ? { again: "no time is left" }
			: await post(url, headers, JSON.stringify(body), Math.min(timeout, left), ending);
		if (!answer.again)
			return answer;
		const wait = Math.max(answer.after ?? 0, backoff(tried));
		if (Date.now() + wait >= deadline)
			throw new Refused(answer.again);
		await unlessStopped(sleep(wait), stopping);
	}
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

async function post(url, headers, body, timeout, ending) {
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
	if (response.status !== 200)
		throw new Refused(`status ${response.status}`);
	return parseAnswer(text);
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

function parseAnswer(text) {
	let answer;

	try {
		answer = JSON.parse(text);
	} catch {
		throw new Lost("the answer is cut or no JSON");
	}
	const content = answer?.choices?.[0]?.message?.content;
	if (typeof content !== "string")
		throw new Lost("the answer has no choices[0].message.content");
	return { output: content, usage: usageOf(answer.usage) };
}

// Whole tokens, or null: a made-up figure would be billed.
function usageOf(usage) {
	const { prompt_tokens, completion_tokens } = usage ?? {};

	return [prompt_tokens, completion_tokens].every((n) => Number.isInteger(n) && n >= 0 && n <= MOST_TOKENS)
		? { prompt_tokens, completion_tokens } : null;
}
