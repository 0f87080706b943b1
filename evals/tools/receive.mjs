#!/usr/bin/env node
// receive.mjs: receives webhooks, and prints each that is signed as it should be
//
//   WEBHOOK_SECRET=whsec_... receive.mjs PORT
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");

// As https://www.standardwebhooks.com describes; the header has several signatures
// for a day after the secret was renewed.
function isSigned({ "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures = "" }, body) {
	const expected = createHmac("sha256", key).update(`${id}.${time}.${body}`).digest();

	return Math.abs(Date.now() / 1000 - time) < 300 && signatures.split(" ").map((one) => Buffer.from(one.replace(/^v1,/, ""), "base64"))
		.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}

createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", () => {
		const body = Buffer.concat(parts).toString();
		const signed = isSigned(request.headers, body);

		if (signed)
			console.log(body);
		response.writeHead(signed ? 204 : 401).end();
	});
}).listen(Number(process.argv[2]), "127.0.0.1");
