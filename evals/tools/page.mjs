// page.mjs SITE PATH TOKEN [PICTURE]: what a page of the console says, as Chromium
// shows it to whoever signs in with the token, and a picture of it
//
// It takes playwright-core from the console's own node_modules.
import { createRequire } from "node:module";

const [site, path, token, picture] = process.argv.slice(2);
const { chromium } = createRequire(new URL("../../http/console/package.json", import.meta.url))("playwright-core");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });

try {
	const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });

	page.setDefaultTimeout(120_000);
	await page.goto(`${site}/console/`);
	await page.fill("input[type=password]", token);
	await page.click("button[type=submit]");
	await page.waitForSelector(".frame main h1");
	await page.goto(`${site}/console/${path}`);
	await page.waitForSelector("main h1");
	for (let i = 0; await page.evaluate(() => document.querySelector("main .loading") !== null); i++) {
		if (i === 600)
			throw new Error("the page goes on loading");
		await page.waitForTimeout(100);		// its policy lets nothing evaluate texts in it
	}
	console.log((await page.innerText("main")).replace(/\n{2,}/g, "\n").trim());
	if (picture)
		await page.screenshot({ path: picture, fullPage: true });
} finally {
	await browser.close();
}
