/*
 * forger.mjs: a provider that answers whatever a test wants, and signs whatever
 * a test wants, also wrongly.
 *
 * POST /control {...} sets what it answers; POST /sign {header, claims, with}
 * answers a token; GET /count says how often each path was asked for.  It prints
 * a line when it listens.
 */
import { createHmac, createSign, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';

const issuer = `http://127.0.0.1:${process.env.PORT}`;
const keys = {};
const asked = {};
let control = {};

function makeKey(kid, kind = 'rsa') {
	const pair = kind === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ec', { namedCurve: 'P-256' });

	keys[kid] = { ...pair, jwk: { ...pair.publicKey.export({ format: 'jwk' }), kid, use: 'sig' } };
}
makeKey('one');
makeKey('curve', 'ec');
makeKey('theirs');		/* is never published */

const encode = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

function sign({ header, claims, with: how }) {
	const text = `${encode(header)}.${encode(claims)}`;
	const key = keys[how] ?? keys.one;

	if (how === 'nothing') return `${text}.`;
	if (how === 'public key')
		return `${text}.${createHmac('sha256', keys.one.publicKey.export({ type: 'spki', format: 'pem' })).update(text).digest('base64url')}`;
	if (how === 'modulus')
		return `${text}.${createHmac('sha256', Buffer.from(keys.one.jwk.n, 'base64url')).update(text).digest('base64url')}`;
	return `${text}.${createSign('SHA256')
		.update(text)
		.sign({ key: key.privateKey, dsaEncoding: 'ieee-p1363' })
		.toString('base64url')}`;
}

createServer(async (request, answer) => {
	const path = request.url.split('?')[0];
	let body = '';

	for await (const piece of request) body += piece;
	asked[path] = (asked[path] ?? 0) + 1;
	const send = (value, status = 200) => answer.writeHead(status, { 'Content-Type': 'application/json' }).end(typeof value === 'string' ? value : JSON.stringify(value));

	if (path === '/control') {
		control = JSON.parse(body);
		if (control.rotate) makeKey(control.rotate);
		return send({});
	}
	if (path === '/sign') return send({ token: sign(JSON.parse(body)) });
	if (path === '/count') return send(asked);
	if (control.silent?.includes(path)) return undefined;
	if (path === '/.well-known/openid-configuration') {
		if (control.huge) return send(`{"issuer":"${issuer}","x":"${'x'.repeat(5_000_000)}"}`);
		if (control.redirect) return answer.writeHead(302, { Location: control.redirect }).end();
		return send({
			issuer: control.issuer ?? issuer,
			authorization_endpoint: `${issuer}/auth`,
			token_endpoint: `${issuer}/token`,
			jwks_uri: control.jwks_uri ?? `${issuer}/jwks`
		});
	}
	if (path === '/jwks')
		return send({ keys: [...(control.keys ?? ['one', 'curve']).map((kid) => keys[kid].jwk), { kty: 'oct', k: encode('secret'), kid: 'octets' }] });
	if (path === '/token') return send(control.token ?? { error: 'invalid_grant' }, control.token ? 200 : 400);
	return send({ error: 'not found' }, 404);
}).listen(Number(process.env.PORT), '127.0.0.1', () => console.log('listens'));
