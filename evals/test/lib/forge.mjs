// forge.mjs: the comments of GitHub's and GitLab's interfaces, for tests
//
//   node forge.mjs '{"token": "...", "status": 0}'
//
// Others have written 150 comments already, and "mallory" copies each new one.
// A request without the token has status 401; with "status" all have that.
// GET /state has the comments and requests so far.  It prints its port.
import { createServer } from "node:http";

const options = JSON.parse(process.argv[2] ?? "{}");
const SELF = { id: 42, login: "github-actions[bot]" }, MALLORY = { id: 66, login: "mallory" };
const state = { comments: [], requests: [] };

function add(user, body) {
	const comment = { id: state.comments.length + 1, user, author: user, body };

	state.comments.push(comment);
	return comment;
}

for (let i = 0; i < 150; i++)
	add(MALLORY, `comment ${i}`);

const LIST = /^\/(repos\/acme\/bot\/issues\/7\/comments|projects\/5\/merge_requests\/9\/notes)$/;
const ONE = /^\/(?:repos\/acme\/bot\/issues\/comments|projects\/5\/merge_requests\/9\/notes)\/(\d+)$/;

function answer(method, { pathname, searchParams: query }, body) {
	if (method === "GET" && pathname === "/user")
		return [200, SELF];
	if (LIST.test(pathname) && method === "GET") {
		const size = Number(query.get("per_page")), page = Number(query.get("page"));
		return [200, state.comments.slice((page - 1) * size, page * size)];
	}
	if (LIST.test(pathname) && method === "POST") {
		add(MALLORY, body);
		return [201, add(SELF, body)];
	}
	const number = ONE.exec(pathname)?.[1];
	const comment = number && state.comments[number - 1];
	if (!comment || method !== (pathname.startsWith("/repos") ? "PATCH" : "PUT"))
		return [404, {}];
	if (comment.user !== SELF)
		return [403, {}];
	comment.body = body;
	return [200, comment];
}

const server = createServer((request, response) => {
	const parts = [];

	request.on("data", (part) => parts.push(part));
	request.on("end", () => {
		const url = new URL(request.url, "http://forge");
		if (url.pathname === "/state")
			return response.end(JSON.stringify(state));
		const token = request.headers["private-token"] ?? request.headers.authorization?.replace(/^Bearer /, "");
		const text = Buffer.concat(parts).toString();
		state.requests.push(`${request.method} ${request.url}`);
		const [status, reply] = options.status ? [options.status, {}] : token !== options.token ? [401, {}]
			: answer(request.method, url, text && JSON.parse(text).body);
		return response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(reply));
	});
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
