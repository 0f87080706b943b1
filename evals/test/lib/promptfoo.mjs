// promptfoo.mjs: what the real promptfoo makes of a set
//
//   node promptfoo.mjs PROMPTFOO-FOLDER SET.yaml ORIGIN [CONCURRENCY]
//
// PROMPTFOO-FOLDER has node_modules/promptfoo; ORIGIN is the stub, which answers for
// the first provider.  It prints a line for each test, in their order: pass or fail,
// and the score; then the milliseconds on standard error.
import { mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { dereferenced } from "../../cli/lib/promptfoo_files.mjs";
import yaml from "../../cli/node_modules/js-yaml/dist/js-yaml.mjs";

const [folder, file, origin, concurrency = "4"] = process.argv.slice(2);
Object.assign(process.env, { PROMPTFOO_DISABLE_TELEMETRY: "1", PROMPTFOO_DISABLE_UPDATE: "1",
	PROMPTFOO_DISABLE_REMOTE_GENERATION: "1", PROMPTFOO_DISABLE_SHARING: "1", LOG_LEVEL: "error",
	PROMPTFOO_CONFIG_DIR: mkdtempSync(join(tmpdir(), "promptfoo-")) });
const installed = await import(pathToFileURL(createRequire(resolve(folder, "x.js")).resolve("promptfoo").replace(/\.cjs$/, ".js")));
const evaluate = installed.evaluate ?? installed.default.evaluate;

const provider = (id) => ({ id: `openai:chat:${id}`,
	config: { apiBaseUrl: `${origin}/v1`, apiKey: "none", temperature: 0 } });
process.chdir(dirname(file));
const config = dereferenced(yaml.load(readFileSync(basename(file), "utf8")));
// An assertion of similarity names its provider, as the default one is the judge.
for (const assert of Array.isArray(config.tests) ? config.tests.flatMap(({ assert = [] }) => assert) : [])
	if (/similar$/.test(assert?.type))
		assert.provider = { ...provider("embedding"), id: "openai:embedding:embedding" };
const start = Date.now();
const prompts = config.prompts.map((prompt) => prompt.id ?? prompt);
const { results } = await evaluate({ ...config, prompts, providers: [provider("model")],
	defaultTest: { ...config.defaultTest, options: { ...config.defaultTest?.options, provider: provider("judge") } },
	writeLatestResults: false },
{ cache: false, showProgressBar: false, maxConcurrency: Number(concurrency) });
results.sort((a, b) => a.testIdx - b.testIdx || a.promptIdx - b.promptIdx);
for (const { success, score } of results)
	console.log(success ? "pass" : "fail", score.toFixed(4));
console.error(Date.now() - start);
process.exit(0);
