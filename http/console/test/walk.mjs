/*
 * walk.mjs: a person walks through the console in Chromium: every page and every
 * form of a tenant, an operator, a finance person and an auditor, in light, dark
 * and on a phone, with axe-core and without a script error.
 *
 * http/test/console.pl starts it with CONSOLE, the address, and TOKEN_ROLE, a
 * token of each role.  It prints one line of JSON per assertion.  With SHOTS, a
 * folder, it keeps a picture of each page, light and dark on a phone.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const site = process.env.CONSOLE;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
const faults = [];
const elsewhere = [];

/* pages that axe-core has seen; they are the same for others */
const examined = new Set();

function ok(good, name, detail = '') {
	console.log(JSON.stringify({ ok: Boolean(good), name, detail: good ? '' : String(detail).slice(0, 2000) }));
}

async function visitor(options = {}) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', acceptDownloads: true, ...options });
	const page = await context.newPage();

	page.setDefaultTimeout(60000);
	page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
	page.on('request', (request) => {
		if (!request.url().startsWith(site) && !/^(blob|data):/.test(request.url())) elsewhere.push(`${page.url()}: ${request.url()}`);
	});
	page.on('console', (message) => {
		/* a refused request is said on the page; a policy that is broken is not */
		if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(`${page.url()}: ${message.text()}`);
	});
	return page;
}

/* The page's policy lets no test evaluate texts in it, so it is asked again and again from outside. */
async function until(page, condition, argument) {
	for (let i = 0; i < 600; i++) {
		if (await page.evaluate(condition, argument)) return true;
		await page.waitForTimeout(100);
	}
	throw new Error(`${page.url()}: it never came to pass that ${condition}`);
}

async function signIn(page, token) {
	await page.goto(`${site}/console/`);
	await page.fill('input[type=password]', token);
	await page.click('button[type=submit]');
	await page.waitForSelector('.frame main h1');
}

async function settled(page) {
	await page.waitForSelector('main h1');
	await until(page, () => !document.querySelector('main .loading'));
}

async function accessible(page, name, rules) {
	await page.evaluate(axe);
	const found = await page.evaluate(async (only) => (await window.axe.run(document, { resultTypes: ['violations'], ...(only ? { runOnly: only } : {}) })).violations
		.filter((one) => one.impact === 'serious' || one.impact === 'critical')
		.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`), rules);

	ok(found.length === 0, `${name}: axe-core finds nothing serious`, found.join('\n'));
}

async function picture(page, name) {
	if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name.replace(/ /g, '_')}.png`, fullPage: true });
}

/* Each page that the navigation offers, as it is at once and on a phone. */
async function everyPage(role, token, expected) {
	const page = await visitor();

	await signIn(page, token);
	const names = await page.$$eval('.side nav a', (links) => links.map((link) => link.textContent));

	ok(expected.join() === names.join(), `${role}: the navigation offers what the role may do`, names.join());
	const places = await page.$$eval('.side nav a', (links) => links.map((link) => link.getAttribute('href')));

	for (const [i, place] of places.entries()) {
		await page.setViewportSize({ width: 1280, height: 900 });
		await page.emulateMedia({ colorScheme: 'light' });
		await page.goto(site + place);
		await settled(page);
		ok((await page.$$('main .problem')).length === 0, `${role}, ${names[i]}: the page has no error`, await page.textContent('main'));
		if (!examined.has(names[i])) await accessible(page, `${role}, ${names[i]}`);
		await picture(page, `${role}-${names[i]}-light`);
		await page.emulateMedia({ colorScheme: 'dark' });
		await page.setViewportSize({ width: 390, height: 844 });
		if (!examined.has(names[i])) await accessible(page, `${role}, ${names[i]}, dark on a phone`, ['color-contrast', 'target-size', 'scrollable-region-focusable']);
		const width = await page.evaluate(() => document.documentElement.scrollWidth);

		await picture(page, `${role}-${names[i]}-dark`);
		examined.add(names[i]);

		ok(width <= 390, `${role}, ${names[i]}: nothing is wider than a phone`, `${width} px`);
	}
	await page.setViewportSize({ width: 1280, height: 900 });
	await page.emulateMedia({ colorScheme: 'light' });
	return page;
}

/* A run beside another, an answer that is rated, and a failure that becomes a case. */
async function evals(page) {
	for (const place of ['evals/3', 'evals/3/label']) {
		await page.goto(`${site}/console/o/acme/${place}`);
		await settled(page);
		await accessible(page, `evals: ${place}`);
		await picture(page, `evals-${place.replaceAll('/', '-')}-light`);
		await page.setViewportSize({ width: 390, height: 844 });
		await page.emulateMedia({ colorScheme: 'dark' });
		await accessible(page, `evals: ${place}, dark on a phone`, ['color-contrast', 'target-size']);
		await picture(page, `evals-${place.replaceAll('/', '-')}-dark`);
		ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, `evals: ${place} is not wider than a phone`);
		await page.setViewportSize({ width: 1280, height: 900 });
		await page.emulateMedia({ colorScheme: 'light' });
	}
	const before = await page.textContent('main');

	ok(/0 rated, 48 left/.test(before) && !/says nothing of the money|judge-1/.test(before), 'rating: an answer is put before a person, without what the judge says', before);
	await page.click('.rating button:nth-child(2)');
	await until(page, () => /1 rated, 47 left/.test(document.querySelector('main').textContent));
	ok(true, 'rating: after a click comes the next one');
	await page.goto(`${site}/console/o/acme/evals/3`);
	await settled(page);
	await page.waitForSelector('.case');
	ok(/Run 2, house-2: 1.000/.test(await page.textContent('main')) && /Run 3, house-3: 0.250/.test(await page.textContent('main')), 'what got worst stands beside the baseline', await page.textContent('main'));
	await page.goto(`${site}/console/o/acme/drift`);
	await settled(page);
	await page.waitForSelector('.case');
	await page.click('.case button');
	await page.fill('dialog .wide input', 'is polite');
	await page.click('dialog button.main');
	await until(page, () => /is case chat\/request 18 of live/.test(document.querySelector('main').textContent));
	ok(true, 'a failure of production becomes a case of the live set');
}

/* Each part of a repository's page, at once and on a phone. */
async function everyPart(page, who, place, kind = '') {
	for (const part of ['', 'files', 'versions', 'lineage', 'scans', 'use']) {
		const name = `${who}, ${place} ${part || 'card'}`;

		await page.goto(`${site}/console/${place}${part ? `/${part}` : ''}${kind}`);
		await settled(page);
		await page.waitForSelector('.tabs a[aria-current]');
		ok((await page.$$('main .problem[role=alert]')).length === 0, `${name}: the page has no error`, await page.textContent('main'));
		await accessible(page, name);
		await picture(page, `${name.replaceAll('/', '-')}-light`);
		await page.setViewportSize({ width: 390, height: 844 });
		await page.emulateMedia({ colorScheme: 'dark' });
		await accessible(page, `${name}, dark on a phone`, ['color-contrast', 'target-size', 'scrollable-region-focusable']);
		await picture(page, `${name.replaceAll('/', '-')}-dark`);
		ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, `${name} is not wider than a phone`);
		await page.setViewportSize({ width: 1280, height: 900 });
		await page.emulateMedia({ colorScheme: 'light' });
	}
}

/* A card is its author's: it runs nothing, loads nothing, and its links say where they lead. */
async function card(page) {
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b`);
	await page.waitForSelector('.markdown table');
	const made = await page.evaluate(() => [...document.querySelectorAll('.markdown *')].map((one) => one.localName));

	ok(!made.some((one) => ['script', 'img', 'iframe', 'form', 'input', 'style', 'svg', 'object', 'link', 'meta', 'base'].includes(one)), 'a card makes no element that does anything', made.join());
	ok(await page.evaluate(() => window.hacked === undefined), 'none of its scripts ran');
	const text = await page.textContent('.markdown');

	ok(/window\.hacked = 3/.test(text) && !/nobody sees this/.test(text), 'a script in it is a text, a comment is nothing', text);
	ok(/\[picture: a spy\]/.test(text), 'a picture is named, not loaded');
	ok(!/[\u202a-\u202e\u2066-\u2069]/.test(text), 'nothing turns the direction of writing');
	const links = await page.evaluate(() => [...document.querySelectorAll('.markdown a')].map((one) => ({ text: one.textContent, href: one.getAttribute('href'), rel: one.rel, after: one.nextSibling?.textContent ?? '' })));

	ok(links.every((one) => /^https?:\/\//.test(one.href) && /noopener/.test(one.rel)), 'links lead to the web alone', JSON.stringify(links));
	ok(links.every((one) => one.text === one.href || one.text === one.href.replace(/\/$/, '') || one.after.includes(new URL(one.href).host)), 'and each says where', JSON.stringify(links));
	ok(!links.some((one) => /bank\.example|acme\.example/.test(one.text)), 'none has the words of another address', JSON.stringify(links));
	ok(links.some((one) => one.href === 'https://nested.example/a_(b)') && links.some((one) => one.href === 'https://plain.example/page'), 'those that are honest work', JSON.stringify(links));
	for (const [name, hostile] of Object.entries({ brackets: '['.repeat(100000), stars: '*a '.repeat(33000), links: '[x]('.repeat(25000), ticks: '`'.repeat(50000) + ' x', quotes: '> '.repeat(50000), lists: Array.from({ length: 400 }, (_, n) => `${' '.repeat(n % 12)}- x`).join('\n'), tags: '<a '.repeat(33000), pipes: `|${'a|'.repeat(20000)}\n|${'-|'.repeat(100)}\n` })) {
		let answered = 0;

		await page.route('**/v1/registry/model?**', async (route) => {
			const answer = await route.fetch();

			answered++;
			await route.fulfill({ response: answer, json: { ...(await answer.json()), card: hostile }, headers: { 'content-type': 'application/json' } });
		});
		await page.reload();
		await page.waitForSelector('.markdown', { state: 'attached' });
		ok(answered > 0 && (await page.$$('.tabs a')).length === 6, `a card of ${name} leaves the page alive`);
		await page.unroute('**/v1/registry/model?**');
	}
}

/* The model registry, as a tenant of the whole organisation. */
async function models(page) {
	await everyPart(page, 'tenant', 'o/acme/models/acme/chat-7b');
	await everyPart(page, 'guest', 'o/acme/models/rival/base-7b');
	await card(page);

	await page.goto(`${site}/console/o/acme/models`);
	await settled(page);
	await page.waitForSelector('tr:has-text("acme/chat-7b")');
	await page.click('summary:has-text("Narrow")');
	await page.click('.facets a:has-text("vllm")');
	await page.waitForSelector('a.chosen:has-text("vllm")');
	await until(page, () => [...document.querySelectorAll('table.cards')][0]?.querySelectorAll('tbody tr').length === 1);
	ok(page.url().includes('facet=vllm') && /chat-7b-awq/.test(await page.textContent('tbody')), 'a facet narrows the list, and is part of the address');
	await page.click('a.chosen');
	await page.waitForSelector('tr:has-text("rival/base-7b")');
	await page.getByLabel('Search').fill('labell');
	await page.keyboard.press('Enter');
	await until(page, () => [...document.querySelectorAll('table.cards')][0]?.querySelectorAll('tbody tr').length === 1);
	ok(page.url().includes('query=labell'), 'a part of a name finds it');
	await page.getByLabel('Search').fill('no such thing');
	await page.keyboard.press('Enter');
	await until(page, () => /No repository has all of this/.test(document.querySelector('main').textContent));
	ok(true, 'what finds nothing says what to do');
	ok(/trojan|labeller/.test(await page.textContent('section:has(h2:has-text("Held back"))')) && /opens a shell/.test(await page.textContent('main')), 'what is held back stands with its reason');
	await page.click('section:has(h2:has-text("Held back")) a');
	await page.waitForSelector('.tabs a[aria-current]:has-text("Scans")');
	await settled(page);
	ok(true, 'and leads to what was found');

	await page.goto(`${site}/console/o/acme/models/acme/leaky/scans`);
	await page.waitForSelector('td:has-text("starts_a_shell")');
	ok(/failed a scan/.test(await page.textContent('main')) && /ask the operator to release/.test(await page.textContent('main')), 'an owner reads what a scanner found, and what can be done');
	ok((await page.$$('main button:has-text("Quarantine")')).length === 0, 'and is not offered to decide it');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b/files?rev=v1.0`);
	await page.click('a:has-text("tokenizer/")');
	await page.click('a:has-text("merges/")');
	await page.waitForSelector('th:has-text("merges.txt")');
	ok(page.url().includes('folder=tokenizer') && page.url().includes('rev=v1.0'), 'a folder of a revision has an address');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b/versions`);
	await page.waitForSelector('.ref.alias:has-text("@champion")');
	await page.click('tr:has-text("first try") button:has-text("Name it")');
	await page.locator('dialog').getByLabel('Alias', { exact: true }).fill('a b');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('dialog .problem');
	ok(/malformed/.test(await page.textContent('dialog .problem')), 'an alias that is none is refused with a hint');
	await accessible(page, 'tenant, an alias');
	await page.locator('dialog').getByLabel('Alias', { exact: true }).fill('rollback');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('tr:has-text("first try") .ref:has-text("@rollback")');
	ok(true, 'a version gets an alias');
	await page.click('button:has-text("Remove @rollback")');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('.ref:has-text("@rollback")', { state: 'detached' });
	ok((await page.$$('button:has-text("Remove @champion")')).length === 0, 'and loses it; one that is protected is not offered');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b/lineage?rev=v1.0`);
	await page.waitForSelector('.graph svg .vertex.here');
	const list = await page.textContent('table');

	ok(/rival\/base-7b/.test(list) && /quantized of chat-7b/.test(list) && /chat-7b-lora-11/.test(list), 'lineage is a list as well', list);
	ok((await page.$$('.graph .vertex')).length < 12 && /more in the list/.test(await page.textContent('.graph')), 'of many in a column the picture has the first');
	await page.focus('.graph');
	ok(/cc-by-4\.0/.test(await page.textContent('main')), 'datasets have their licences');
	await page.click('table a:has-text("rival/base-7b")');
	await page.waitForSelector('h1:has-text("rival/base-7b")');
	ok(page.url().includes('/o/acme/models/rival/base-7b/lineage'), 'and lead to each other');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b/use`);
	await page.waitForSelector('.chart canvas');
	ok(/Costs a month at most/.test(await page.textContent('main')) && !/Who downloaded/.test(await page.textContent('main')), 'an owner sees what it costs, and not who downloaded');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b-awq/use`);
	await page.waitForSelector('text=the remote answered 503');
	ok(true, 'a mirror that fails says why');
	await page.goto(`${site}/console/o/acme/models/rival/trojan`);
	await settled(page);
	ok(/in quarantine/.test(await page.textContent('main')) && !/Free/.test(await page.textContent('main')), 'what nobody reads has no card');
	await page.goto(`${site}/console/o/acme/models/acme/nothing`);
	await page.waitForSelector('.problem');
	ok(/Check the name/.test(await page.textContent('.problem')), 'a repository that is none says what to check');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b/files?rev=nothing`);
	await page.waitForSelector('.problem');
	ok(/List the refs/.test(await page.textContent('.problem')), 'as does a revision that is none');
}

/* An operator releases a version and puts it into quarantine again. */
async function heldModels(page) {
	await page.goto(`${site}/console/models`);
	await settled(page);
	await page.click('section:has(h2:has-text("Held back")) a:has-text("rival/trojan")');
	await page.waitForSelector('main button:has-text("Release")');
	await everyPart(page, 'operator', 'o/rival/models/rival/trojan');
	await page.goto(`${site}/console/o/rival/models/rival/trojan/lineage`);
	await page.waitForSelector('table:has-text("acme/labeller")');
	ok(true, 'an operator sees what was made from it, whoever did');
	await page.goto(`${site}/console/o/rival/models/rival/trojan/scans`);
	await page.click('main button:has-text("Release")');
	await page.getByLabel('Reason').fill('a false alarm');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('main button:has-text("Quarantine")');
	await page.waitForSelector('dialog', { state: 'detached' });
	ok(true, 'an operator releases a version');
	await page.click('main button:has-text("Scan again")');
	await page.click('dialog button[type=submit]');
	ok(/set_scan_policy/.test(await (await page.waitForSelector('dialog .success')).textContent()), 'without a policy a new scan says what is missing');
	await page.keyboard.press('Escape');
	await page.waitForSelector('dialog', { state: 'detached' });
	await page.click('main button:has-text("Quarantine")');
	await page.getByLabel('Reason').fill('it was none');
	await accessible(page, 'operator, a quarantine');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('main .problem:has-text("it was none")');
	ok(true, 'and quarantines it again, with the reason that its readers see');
	await page.goto(`${site}/console/models?query=labeller`);
	await until(page, () => [...document.querySelectorAll('table.cards')][0]?.textContent.includes('quarantined'));
	ok(true, 'with all that was made from it');
}

async function gate() {
	const page = await visitor();

	await page.goto(`${site}/console/o/acme/jobs?state=running`);
	await page.waitForSelector('input[type=password]');
	await accessible(page, 'signing in');
	await page.fill('input[type=password]', 'gpc_no_such_token');
	await page.keyboard.press('Enter');
	ok(/issue_token/.test(await page.textContent('.problem')), 'a token that is not good is refused with the hint of what to do');
	await page.fill('input[type=password]', process.env.TOKEN_TOM);
	await page.keyboard.press('Enter');
	await page.waitForSelector('.frame main h1');
	ok(page.url().endsWith('/console/o/acme/jobs?state=running'), 'whoever followed a link is at its page after signing in', page.url());
	await settled(page);
	await page.keyboard.press('Tab');
	ok((await page.evaluate(() => document.activeElement.textContent)) === 'To the page', 'the first key press offers to skip the navigation');
	ok(await page.evaluate(() => !document.cookie.includes('gps_')), 'no script reads the cookie');
	for (const place of ['o/acme/statement?month=x', 'o/acme/usage?days=x']) {
		await page.goto(`${site}/console/${place}`);
		await settled(page);
		ok(/no such page|does not exist|Usage/.test(await page.textContent('main')), `an address that nobody wrote is answered by a page: ${place}`, await page.textContent('main'));
	}
	await page.goto(`${site}/console/o/acme/jobs?state=running`);
	await settled(page);
	await until(page, () => performance.getEntriesByName('first-contentful-paint').length > 0);
	const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);

	ok(paint > 0, 'the first page is painted');
	console.log(JSON.stringify({ note: `first contentful paint ${Math.round(paint)} ms` }));
	await page.click('.who button');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('input[type=password]');
	await page.reload();
	await page.waitForSelector('input[type=password]');
	ok(true, 'whoever signed out is asked for a token again');
}

async function tenant() {
	const page = await everyPage('tenant', process.env.TOKEN_TOM, ['Credit', 'Jobs', 'Submit', 'Usage', 'Statement', 'Invoices', 'Budgets', 'Requests', 'Models', 'Evals', 'Drift', 'Alerts', 'Webhooks', 'Prices', 'Tokens']);

	await evals(page);
	await models(page);

	await page.goto(`${site}/console/o/acme/credit`);
	await settled(page);
	ok(await page.waitForSelector('.chart canvas'), 'the burn chart is drawn');
	ok(/\d+\.\d\d/.test(await page.textContent('dl.tiles')), 'the balance stands in numbers');

	await page.goto(`${site}/console/o/acme/submit`);
	/* a first suggestion comes with the prices */
	await until(page, () => [...document.querySelectorAll('input')].some((one) => one.value === '1xH100'));
	await page.getByLabel('Devices').fill('2xH100');
	await page.getByLabel('Time limit').fill('90 min');
	await page.getByLabel('Name', { exact: true }).fill('<img src=x onerror=alert(1)>');
	await until(page, () => document.querySelector('.quote strong')?.textContent === '6.000000');
	ok(true, 'the quote is there as one types');
	await page.getByLabel('Devices').fill('2xNothing');
	ok(/no price/.test(await page.textContent('form')), 'a type without a price is said before submitting');
	await page.getByLabel('Devices').fill('900xH100');
	await page.waitForSelector('.quote .warn');
	ok(true, 'credit that does not suffice is said before submitting');
	await page.click('button[type=submit]');
	ok(/denied/.test(await page.textContent('.problem')), 'a denial says that it is one');
	await page.getByLabel('Devices').fill('2xH100');
	await page.click('button[type=submit]');
	await page.click('.success a');
	await page.waitForSelector('main .state');
	const job = /jobs\/(\d+)/.exec(page.url())[1];

	await settled(page);
	ok(/<img src=x/.test(await page.textContent('h1')), 'a name with a tag in it is a text');
	ok(await until(page, () => /Why it waits|Where it stands/.test(document.querySelector('main').textContent)), 'the page of the job says where it stands');
	await accessible(page, 'tenant, a job');
	await page.setViewportSize({ width: 390, height: 844 });
	ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, 'a job\'s page is no wider than a phone');
	await page.setViewportSize({ width: 1280, height: 900 });
	await page.click('text=Cancel');
	await page.waitForSelector('dialog[open]');
	await accessible(page, 'tenant, a question');
	await page.keyboard.press('Escape');
	await page.waitForSelector('dialog', { state: 'detached' });
	await page.click('button.danger');
	await page.getByLabel('Reason').fill('not needed');
	await page.click('dialog button[type=submit]');
	await until(page, () => /cancelled/.test(document.querySelector('dl.facts')?.textContent ?? ''));
	ok(true, 'a job is cancelled, and the page follows');
	await page.click('text=Run again');
	await until(page, () => [...document.querySelectorAll('input')].some((one) => one.value === '2xH100'));
	ok(await until(page, () => [...document.querySelectorAll('input')].some((one) => one.value === '1 h 30 min')), `job ${job} is offered again as it was`);
	await page.click('button[type=submit]');
	await page.waitForSelector('.success a');
	ok(true, 'and submitted again');

	await page.goto(`${site}/console/o/acme/jobs/${process.env.JOB}`);
	await until(page, () => /step 7 of 40/.test(document.querySelector('.log')?.textContent ?? ''));
	ok(true, 'what a job prints is shown');

	await page.goto(`${site}/console/o/acme/jobs`);
	await page.waitForSelector('.row');
	ok((await page.$$('.row')).length < 80, 'of many jobs only the rows in sight exist', (await page.$$('.row')).length);
	for (let i = 0; i < 12 && /more come/.test(await page.textContent('main')); i++) {
		await page.evaluate(() => document.querySelector('.list').scrollTo(0, 1e9));
		await page.waitForTimeout(100);
	}
	await until(page, () => !/more come/.test(document.querySelector('main').textContent));
	await page.evaluate(() => document.querySelector('.list').scrollTo(0, 1e9));
	await until(page, (first) => [...document.querySelectorAll('.row b')].some((one) => one.textContent === first), process.env.FIRST_JOB);
	ok(true, 'scrolling reaches the first of all jobs');
	await page.click('.chips button:has-text("Cancelled")');
	await until(page, () => document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row .state')].every((one) => one.textContent === 'cancelled'));
	ok(page.url().includes('state=cancelled'), 'a filter is part of the address');

	await page.goto(`${site}/console/o/acme/usage?by=gpu_type`);
	await settled(page);
	await page.waitForSelector('tbody tr');
	const [file] = await Promise.all([page.waitForEvent('download'), page.click('button:has-text("CSV")')]);
	const csv = readFileSync(await file.path(), 'utf8');

	ok(/^gpu_type,spent,refunded,net,gpu_hours,jobs\r\nH100,\d+\.\d{6},/.test(csv), 'usage leaves as CSV, exactly', csv);

	await page.goto(`${site}/console/tokens`);
	await page.getByLabel('Label').fill('from the console');
	await page.click('button:has-text("Issue the token")');
	ok(/^gpc_[0-9a-f]{64}$/.test(await page.textContent('.secret')), 'a token\'s secret is shown once');
	await page.reload();
	await page.waitForSelector('tr:has-text("from the console")');
	ok(!/gpc_[0-9a-f]/.test(await page.textContent('main')), 'and not again');
	await page.click('tr:has-text("from the console") button');
	await until(page, () => !/from the console/.test(document.querySelector('main').textContent));
	ok(true, 'and it is revoked');
	await page.goto(`${site}/console/o/acme/requests`);
	await page.click('tr:has-text("The paper is due.") button:has-text("Decide")');
	await page.waitForSelector('dialog[open]');
	await accessible(page, 'tenant, a decision');
	await page.locator('dialog').getByLabel('Credits').fill('15.5');
	await page.getByLabel('Note').fill('for one run');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('tr:has-text("for one run"):has-text("granted")');
	ok(/15\.50/.test(await page.textContent('tr:has-text("for one run")')), 'an approver grants a part of what was asked for');
	await page.getByLabel('Credits').fill('7');
	await page.getByLabel('Reason').fill('<b>more</b>');
	await page.click('button:has-text("Send the request")');
	await page.waitForSelector('tr:has-text("<b>more</b>")');
	ok((await page.$$('tr:has-text("<b>more</b>") button:has-text("Decide")')).length === 0, 'what one asks for oneself is not offered to decide');
	await page.click('tr:has-text("<b>more</b>") button:has-text("Take back")');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('tr:has-text("<b>more</b>"):has-text("withdrawn")');
	ok(true, 'and is taken back');

	await page.goto(`${site}/console/o/acme/webhooks`);
	await page.getByLabel('Address').fill('ftp://hooks.example.com/walk');
	await page.click('button:has-text("Make the webhook")');
	await page.waitForSelector('form .problem');
	ok(true, 'an address that nothing can be sent to is refused');
	await page.getByLabel('Address').fill('https://hooks.example.com/walk');
	await page.getByLabel('Label').fill('walk');
	await page.getByLabel('budget.threshold').check();
	await page.click('button:has-text("Make the webhook")');
	await page.waitForSelector('.secret');
	ok(/^whsec_/.test(await page.textContent('.secret')), 'a webhook\'s secret is shown once');
	await page.click('tbody a:has-text("walk")');
	await page.waitForSelector('dl.facts');
	await settled(page);
	await accessible(page, 'tenant, a webhook');
	ok(/budget\.threshold/.test(await page.textContent('dl.facts')), 'it sends what was chosen');
	await page.click('button:has-text("Disable")');
	await page.waitForSelector('button:has-text("Enable")');
	ok(/disabled: by hand/.test(await page.textContent('dl.facts')), 'it is disabled');
	await page.click('button.danger:has-text("Remove")');
	await page.click('dialog button[type=submit]');
	await until(page, () => /Nothing is sent anywhere/.test(document.querySelector('main').textContent));
	ok(true, 'and removed');

	await page.goto(`${site}/console/o/rival/credit`);
	await page.waitForSelector('.problem');
	ok(!/100\.00/.test(await page.textContent('main')), 'another organisation\'s address shows an error and no credit');
	await page.goto(`${site}/console/no/such/page`);
	ok(/no such page/.test(await page.textContent('main')), 'an address that leads to nothing says so');
	return page;
}

async function operator() {
	const page = await everyPage('operator', process.env.TOKEN_OPS, ['Cluster', 'Queue', 'Nodes', 'Capacity', 'Upkeep', 'All models', 'Prices', 'Tokens']);

	await heldModels(page);
	await page.goto(`${site}/console/cluster`);
	ok(await page.waitForSelector('.device.used'), 'devices show who has them');
	await page.goto(`${site}/console/nodes`);
	await page.click('tr:has-text("n1") button:has-text("Drain")');
	await page.getByLabel('Reason').fill('a fan is loud');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('tr:has-text("n1"):has-text("a fan is loud")');
	ok(true, 'a node is drained, and the page says why');
	await page.click('tr:has-text("n1") button:has-text("Resume")');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('tr:has-text("n1") button:has-text("Drain")');
	ok(true, 'and works again');
	await page.goto(`${site}/console/upkeep`);
	await page.waitForSelector('.success');
	ok(/sum of its entries/.test(await page.textContent('main')), 'the books balance, as verify() says');
}

async function finance() {
	const page = await everyPage('finance', process.env.TOKEN_ROOT_ADMIN, ['Cluster', 'Queue', 'Nodes', 'Capacity', 'Upkeep', 'All models', 'Organisations', 'Owed and expiring', 'Prices', 'Audit', 'Seals', 'Tokens']);

	await page.goto(`${site}/console/organisations`);
	await page.getByLabel('Name').fill('new & <b>bold</b>');
	await page.click('button:has-text("Add")');
	await page.click('.success a');
	await page.waitForSelector('h1:has-text("Issue and refund")');
	ok(true, 'an organisation is added, and leads to its first credit');
	const issue = async () => {
		await page.getByLabel('Credits').first().fill('12.5');
		await page.getByLabel('Reference').fill('invoice 4711');
		await page.getByLabel('Reason').first().fill('first payment');
		await page.click('button:has-text("Issue")');
		return (await page.waitForSelector('.success')).textContent();
	};

	ok(/12\.500000/.test(await issue()), 'credit is issued with its reason');
	await accessible(page, 'finance, issue and refund');
	await page.reload();
	ok(/before/.test(await issue()), 'the same reference issues nothing more, and says so');
	await page.goto(`${site}/console/o/acme/money`);
	const refund = page.locator('section:has(h2:has-text("Refund"))');

	await refund.getByLabel('Job').fill(process.env.SETTLED);
	await refund.getByLabel('Credits').fill('0.25');
	await refund.getByLabel('Reason').fill('a node was slow');
	await refund.locator('button[type=submit]:not([disabled])').click();
	ok(/0\.250000/.test(await refund.locator('.success').textContent()), 'a job\'s cost is refunded in part');
	await refund.getByLabel('Credits').fill('1000');
	await refund.locator('button[type=submit]:not([disabled])').click();
	ok((await refund.locator('.problem').textContent()).length > 40, 'more than it cost is refused with a hint');
	await page.goto(`${site}/console/o/acme/limits?account=vision`);
	await page.getByLabel('Credits').fill('40');
	await page.click('button:has-text("Set the budget")');
	await page.waitForSelector('.success');
	await page.waitForSelector('.limit:has-text("40.00")');
	ok(true, 'a budget is set and shown as a bar');
	await page.goto(`${site}/console/o/acme/invoices`);
	await settled(page);
	ok(/Set the terms below/.test(await page.textContent('main')), 'before the first invoice the page says what to do');
	await page.click('button:has-text("Set the terms")');
	await page.getByLabel('Tax, %').fill('19');
	await page.getByLabel('Seller').fill('GPU House\n1 Rack Street');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('main button:has-text("Issue the invoice")');
	ok(true, 'terms are set, and then an invoice can be issued');
	await page.getByLabel('Month (UTC)').fill('2020-01');
	await page.click('button:has-text("Issue the invoice")');
	ok(/nothing to invoice|before/.test(await (await page.waitForSelector('main .problem')).textContent()), 'a month without usage gets none, with a hint');
	await page.goto(`${site}/console/o/rival/invoices`);
	await page.click('a:has-text("INV-000001")');
	await page.waitForSelector('h1:has-text("INV-000001")');
	await settled(page);
	await accessible(page, 'finance, an invoice');
	const [file] = await Promise.all([page.waitForEvent('download'), page.click('button:has-text("Page for print")')]);

	ok(file.suggestedFilename() === 'INV-000001.html', 'an invoice is downloaded as a page for print', file.suggestedFilename());
	await page.click('button:has-text("Credit note")');
	await page.getByLabel('Reason').fill('wrong buyer');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('dialog', { state: 'detached' });
	await page.goto(`${site}/console/o/rival/invoices`);
	await page.waitForSelector('tr:has-text("Credit note for INV-000001")');
	ok(true, 'a credit note takes it back');
	await page.goto(`${site}/console/prices`);
	await page.getByLabel('GPU type').fill('L40S');
	await page.getByLabel('Credits per GPU-hour').fill('1.2');
	await page.click('button:has-text("Set the price")');
	await page.waitForSelector('tr:has-text("L40S")');
	ok(true, 'a price is set');
	await page.goto(`${site}/console/books`);
	await page.click('button:has-text("Write off")');
	await page.getByLabel('Reason').fill('goodwill');
	await page.click('dialog button[type=submit]');
	await until(page, () => /Nobody owes/.test(document.querySelector('main').textContent));
	ok(true, 'a debt is written off');
}

async function auditor() {
	const page = await everyPage('auditor', process.env.TOKEN_AUD, ['Cluster', 'Queue', 'Capacity', 'Upkeep', 'All models', 'Organisations', 'Owed and expiring', 'Prices', 'Audit', 'Seals', 'Tokens']);

	await page.goto(`${site}/console/audit?org=acme`);
	await page.getByLabel('Operation').fill('refund');
	await page.click('button:has-text("Search")');
	await page.waitForSelector('tbody tr:has-text("refund")');
	ok(page.url().includes('operation=refund'), 'a search is part of the address');
	ok(await until(page, () => /a node was slow/.test(document.querySelector('tbody').textContent)), 'and finds the reason that was given');
	ok((await page.$$('main button.danger, main form button.main:not(:has-text("Search"))')).length === 0, 'an auditor is offered nothing that changes anything');
	await page.goto(`${site}/console/seals`);
	await settled(page);
	await page.waitForSelector('code.hex');
	await page.click('button:has-text("Check")');
	await page.waitForSelector('.success');
	ok(/Every row is what was sealed/.test(await page.textContent('.success')), 'an auditor checks the chain');
	await page.getByLabel('A seal that you kept').fill('0'.repeat(64));
	await page.click('button:has-text("Check")');
	ok(await until(page, () => document.querySelector('.success .problem') !== null), 'a seal that is not in it is found out');
	await page.getByLabel('Number').fill('1');
	await page.click('button:has-text("Make the proof")');
	await page.waitForSelector('.proof');
	ok(/"path"/.test(await page.textContent('.proof')), 'and proves a row');
	await accessible(page, 'auditor, a proof');
	await page.goto(`${site}/console/o/acme/models/acme/chat-7b/use`);
	await page.waitForSelector('section:has(h2:has-text("Who downloaded")) td');
	ok(/acme\/vision/.test(await page.textContent('main')), 'an auditor sees who downloaded');
	ok((await page.$$('main button')).length === 0, 'and is offered to change nothing');
	await page.goto(`${site}/console/organisations`);
	await settled(page);
	ok((await page.$$('button:has-text("Add")')).length === 0, 'an auditor is not offered to add an organisation');
}

/*
 * No page is wider than its window, whatever the names and numbers on it: those
 * of this organisation and pool are the longest.  No chart is drawn anew when the
 * window changes, as if the browser were too busy to.
 */
async function nothingIsTooWide() {
	const page = await visitor();
	const wide = process.env.WIDE;
	const pages = [
		...['credit', 'jobs', `jobs/${process.env.WIDE_JOB}`, 'submit', 'usage', 'usage?by=gpu_type', 'statement', 'invoices', `invoices/${process.env.WIDE_INVOICE}`, 'limits', 'requests', 'alerts', 'webhooks', `webhooks/${process.env.WIDE_WEBHOOK}`, 'money', 'models', ...['', '/files', `/files?folder=${'W'.repeat(250)}`, '/versions', '/lineage', '/scans', '/use'].map((part) => `models/${wide}/${'W'.repeat(96)}${part}`)].map((one) => `o/${wide}/${one}`),
		...['cluster', 'queue', 'nodes', 'capacity', 'capacity?days=30'].map((one) => `${one}${one.includes('?') ? '&' : '?'}pool=${wide}`),
		'upkeep', 'models', 'organisations', 'books', 'prices', `audit?org=${wide}`, 'seals', 'tokens'
	];

	await page.addInitScript(() => {
		window.ResizeObserver = class {
			observe() {}
			unobserve() {}
			disconnect() {}
		};
	});
	await signIn(page, process.env.TOKEN_ROOT_ADMIN);
	for (const place of pages) {
		const name = place.replaceAll(wide, 'WIDE');

		await page.setViewportSize({ width: 1280, height: 900 });
		await page.goto(`${site}/console/${place}`);
		await settled(page);
		ok((await page.$$('main .problem')).length === 0, `the widest content: ${name} has no error`, await page.textContent('main'));
		await page.evaluate(() => document.querySelectorAll('details').forEach((one) => (one.open = true)));
		for (const width of [1280, 1000, 840, 820, 390, 320]) {
			await page.setViewportSize({ width, height: 900 });
			const found = await page.evaluate(() => ({
				width: document.documentElement.scrollWidth,
				cards: [...document.querySelectorAll('main .scroll')].filter((one) => innerWidth < 832 && one.scrollWidth > one.clientWidth).map((one) => one.textContent.slice(0, 80)),
				out: [...document.querySelectorAll('main *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5).slice(0, 6).map((one) => one.outerHTML.slice(0, 200))
			}));

			ok(found.width <= width && found.cards.length === 0, `the widest content: ${name} fits ${width} px`, JSON.stringify(found, null, 1));
		}
	}
	await page.close();
}

/* What happens to a page when the token is revoked, and when the daemon is not there. */
async function endings(page) {
	await page.goto(`${site}/console/o/acme/credit`);
	await settled(page);
	await page.route('**/v1/**', (route) => route.abort());
	await page.waitForSelector('.problem');
	ok(/tries again/.test(await page.textContent('.problem')), 'while the daemon does not answer, the page says that it tries again');
	await page.unroute('**/v1/**');
	await page.waitForSelector('.problem', { state: 'detached', timeout: 30000 });
	ok(true, 'and goes on when it answers');
	await page.evaluate(async () => {
		const csrf = (await (await fetch('/v1/session')).json()).csrf;

		await fetch('/v1/session?everywhere=true', { method: 'DELETE', headers: { 'X-CSRF-Token': csrf } });
	});
	await page.waitForSelector('input[type=password]');
	ok(!/\d\.\d{6}/.test(await page.textContent('body')), 'a session that is over leads to signing in, and leaves no credit on the page');
}

try {
	await gate();
	const page = await tenant();

	await operator();
	await finance();
	await auditor();
	await nothingIsTooWide();
	await endings(page);
	ok(elsewhere.length === 0, 'no page has asked for anything elsewhere', elsewhere.join('\n'));
	ok(faults.length === 0, 'no script failed, and the policy stopped nothing', faults.join('\n'));
} catch (error) {
	ok(false, 'the walk comes to its end', error.stack);
}
await browser.close();
