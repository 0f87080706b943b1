/*
 * api.ts: requests to the daemon that served this page.
 *
 * The session's cookie is out of reach of scripts.  Whatever may change
 * something carries the session's second secret, which GET /v1/session answers.
 */
export interface Session {
	role: string;
	scope: 'read' | 'label' | 'submit' | 'spend' | 'admin';
	session: number;
	token: number;
	expires_at: string;
	csrf: string;
}

/* A problem document (RFC 9457). */
export class Problem extends Error {
	readonly status: number;
	readonly detail?: string;
	readonly hint?: string;
	readonly sqlstate?: string;
	readonly result?: unknown;

	constructor(status: number, document: Record<string, unknown>) {
		super(String(document.title ?? `HTTP ${status}`));
		this.status = status;
		this.detail = document.detail as string | undefined;
		this.hint = document.hint as string | undefined;
		this.sqlstate = document.sqlstate as string | undefined;
		this.result = document.result;
	}
}

let session: Session | null = null;
let onSignedOut: () => void = () => undefined;

/* What is done when the session turns out to be over. */
export function whenSignedOut(action: () => void): void {
	onSignedOut = action;
}

async function problemOf(answer: Response): Promise<Problem> {
	let document: Record<string, unknown> = {};

	try {
		document = (await answer.json()) as Record<string, unknown>;
	} catch {
		document = { title: answer.statusText || 'The answer is no JSON' };
	}
	return new Problem(answer.status, document);
}

async function send(path: string, options: RequestInit): Promise<Response> {
	try {
		return await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options });
	} catch {
		throw new Problem(0, {
			title: 'the daemon does not answer',
			hint: 'Check the connection. This page tries again by itself.'
		});
	}
}

async function checked(answer: Response): Promise<Response> {
	if (answer.ok || answer.status === 304) return answer;
	const problem = await problemOf(answer);

	if (answer.status === 401 && session !== null) {
		session = null;
		onSignedOut();
	}
	throw problem;
}

/* The present session, or null for nobody. */
export async function findSession(): Promise<Session | null> {
	const answer = await send('/v1/session', {});

	session = answer.ok ? ((await answer.json()) as Session) : null;
	if (!answer.ok && answer.status !== 401) throw await problemOf(answer);
	return session;
}

export interface Provider {
	provider: number;
	name: string;
}

/* The identity providers by which somebody can sign in; none if that cannot be known. */
export async function findProviders(): Promise<Provider[]> {
	try {
		const answer = await send('/v1/sign_in', {});

		return answer.ok ? ((await answer.json()) as { data: Provider[] }).data : [];
	} catch {
		return [];
	}
}

export async function signIn(token: string): Promise<Session> {
	const answer = await send('/v1/session', {
		method: 'POST',
		headers: { Authorization: `Bearer ${token}` }
	});

	if (!answer.ok) throw await problemOf(answer);
	session = (await answer.json()) as Session;
	return session;
}

export async function signOut(everywhere: boolean): Promise<void> {
	await request('DELETE', `/v1/session${everywhere ? '?everywhere=true' : ''}`);
	session = null;
}

/* What an address answers now, or undefined if it has not changed since the tag. */
export async function read<T>(path: string, tag?: string): Promise<{ value: T; tag?: string } | undefined> {
	const answer = await checked(await send(path, tag ? { headers: { 'If-None-Match': tag } } : {}));

	if (answer.status === 304) return undefined;
	return { value: (await answer.json()) as T, tag: answer.headers.get('ETag') ?? undefined };
}

/* A request that may change something; key makes its repetition harmless. */
export async function request<T>(method: 'POST' | 'DELETE', path: string, body?: object, key?: string): Promise<T> {
	const headers: Record<string, string> = { 'X-CSRF-Token': session?.csrf ?? '' };

	if (body) headers['Content-Type'] = 'application/json';
	if (key) headers['Idempotency-Key'] = key;
	const answer = await checked(
		await send(path, { method, headers, body: body ? JSON.stringify(body) : undefined })
	);

	return (await answer.json()) as T;
}

/* A key for a call that is made by hand. */
export function newKey(): string {
	return `console-${crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join('-')}`;
}

/*
 * An address with its query; arguments that are undefined or '' are left out,
 * lists repeated.  The account '' is the organisation itself.
 */
export function address(path: string, query: Record<string, string | number | string[] | null | undefined>): string {
	const words = new URLSearchParams();

	for (const [name, value] of Object.entries(query)) {
		if (Array.isArray(value)) value.forEach((one) => words.append(name, one));
		else if (value !== undefined && value !== null && (value !== '' || name === 'account')) words.append(name, String(value));
	}
	const text = words.toString();

	return text ? `${path}?${text}` : path;
}
