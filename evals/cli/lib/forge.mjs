// forge.mjs: a comment on a pull request of GitHub, or a merge request of GitLab
//
// What the job's runner says about itself is in the environment.  One comment
// stands for a config: the job's own that begins with the same marker is
// replaced.  One that somebody else wrote is left, whatever it begins with.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const PAGE = 100;
const MOST_PAGES = 20;
const TRIES = 3;
const TIMEOUT = 30_000;

// The commit that is measured, where the runner says it.
export function commitOf(env) {
	return pullRequest(env)?.head?.sha ?? env.GITHUB_SHA ?? env.CI_COMMIT_SHA;
}

// Posts a comment, and returns why it did not, or nothing.
export async function postComment(env, body, first) {
	try {
		const forge = env.GITHUB_ACTIONS ? github(env) : env.GITLAB_CI ? gitlab(env) : "this is no job of GitHub or GitLab";
		if (typeof forge === "string")
			return forge;
		const mine = await ownComment(await forge.list(), first);
		await (mine === undefined ? forge.create(body) : forge.update(mine, body));
		return undefined;
	} catch (error) {
		return error.message;
	}
}

function pullRequest(env) {
	try {
		return JSON.parse(readFileSync(env.GITHUB_EVENT_PATH, "utf8")).pull_request;
	} catch {
		return undefined;
	}
}

// Functions that list, make and change comments, or why there are none.
function github(env) {
	const { GITHUB_API_URL: api = "https://api.github.com", GITHUB_REPOSITORY: repository, GITHUB_TOKEN: token,
		GPUCREDIT_COMMENT_AUTHOR: author = "github-actions[bot]" } = env;
	const number = pullRequest(env)?.number;

	if (!Number.isInteger(number))
		return "the job is of no pull request";
	if (!token)
		return "GITHUB_TOKEN is not set";
	const headers = { authorization: `Bearer ${token}`, accept: "application/vnd.github+json" };
	const issues = `${api}/repos/${repository.split("/").map(encodeURIComponent).join("/")}/issues`;
	return {
		list: async () => ({ pages: pagesOf(`${issues}/${number}/comments`, headers), own: ({ user }) => user?.login === author }),
		create: (body) => call("POST", `${issues}/${number}/comments`, headers, { body }),
		update: (id, body) => call("PATCH", `${issues}/comments/${id}`, headers, { body }),
	};
}

function gitlab(env) {
	const { CI_API_V4_URL: api, CI_MERGE_REQUEST_PROJECT_ID: project, CI_MERGE_REQUEST_IID: number,
		GPUCREDIT_EVAL_GITLAB_TOKEN: token } = env;

	if (!/^\d+$/.test(number ?? ""))
		return "the job is of no merge request";
	if (!token)
		return "GPUCREDIT_EVAL_GITLAB_TOKEN is not set";
	const headers = { "private-token": token };
	const notes = `${api}/projects/${encodeURIComponent(project)}/merge_requests/${number}/notes`;
	return {
		list: async () => {
			const { id } = await call("GET", `${api}/user`, headers);
			return { pages: pagesOf(notes, headers), own: ({ author }) => author?.id === id };
		},
		create: (body) => call("POST", notes, headers, { body }),
		update: (id, body) => call("PUT", `${notes}/${id}`, headers, { body }),
	};
}

async function ownComment({ pages, own }, first) {
	for await (const page of pages) {
		const mine = page.find((one) => own(one) && String(one.body).startsWith(first) && Number.isInteger(one.id));
		if (mine)
			return mine.id;
	}
	return undefined;
}

async function* pagesOf(url, headers) {
	for (let page = 1; page <= MOST_PAGES; page++) {
		const found = await call("GET", `${url}?per_page=${PAGE}&page=${page}`, headers);
		if (!Array.isArray(found))
			throw new Error("the comments are no list");
		yield found;
		if (found.length < PAGE)
			return;
	}
}

// One call.  What the server answers is not shown, nor does a redirect see the
// token.
async function call(method, url, headers, body) {
	for (let tried = 1; ; tried++) {
		const failed = await attempt(method, url, headers, body);
		if (failed.answer !== undefined)
			return failed.answer;
		if (!failed.again || tried === TRIES)
			throw new Error(failed.message);
		await sleep(500 * tried);
	}
}

async function attempt(method, url, headers, body) {
	let response;

	try {
		response = await fetch(url, { method, redirect: "error", signal: AbortSignal.timeout(TIMEOUT),
			headers: { "user-agent": "gpucredit-eval", ...headers, ...body ? { "content-type": "application/json" } : {} },
			...body ? { body: JSON.stringify(body) } : {} });
		if (response.ok)
			return { answer: await response.json() };
	} catch (error) {		// a comment that was made may be made twice
		return { message: `no answer to ${method}: ${error.cause?.code ?? error.name}`, again: method !== "POST" };
	}
	await response.body?.cancel();
	return { message: `${method} has status ${response.status}`, again: response.status === 429 || response.status >= 500 };
}
