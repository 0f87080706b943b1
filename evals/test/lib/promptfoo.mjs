// promptfoo.mjs: what the real promptfoo 0.118.17 makes of a set
//
//   node promptfoo.mjs PROMPTFOO-FOLDER SET.yaml ORIGIN [CONCURRENCY]
//
// PROMPTFOO-FOLDER has node_modules/promptfoo; ORIGIN is the stub.  It prints
// a line for each test, in their order: pass or fail, and the score; then the
// milliseconds on standard error.
import { mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import yaml from "../../cli/node_modules/js-yaml/dist/js-yaml.mjs";

const [folder, file, origin, concurrency = "4"] = process.argv.slice(2);
Object.assign(process.env, { PROMPTFOO_DISABLE_TELEMETRY: "1", PROMPTFOO_DISABLE_UPDATE: "1",
	PROMPTFOO_DISABLE_REMOTE_GENERATION: "1", PROMPTFOO_DISABLE_SHARING: "1", LOG_LEVEL: "error",
	PROMPTFOO_CONFIG_DIR: mkdtempSync(join(tmpdir(), "promptfoo-")) });
const { default: promptfoo } = createRequire(resolve(folder, "x.js"))("promptfoo");

const provider = (id) => ({ id: `openai:chat:${id}`,
	config: { apiBaseUrl: `${origin}/v1`, apiKey: "none", temperature: 0 } });
const config = yaml.load(readFileSync(file, "utf8"));
const start = Date.now();
const { results } = await promptfoo.evaluate({ ...config, providers: [provider("model")],
	defaultTest: { ...config.defaultTest, options: { provider: provider("judge") } }, writeLatestResults: false },
{ cache: false, showProgressBar: false, maxConcurrency: Number(concurrency) });
results.sort((a, b) => a.testIdx - b.testIdx);
for (const { success, score } of results)
	console.log(success ? "pass" : "fail", score.toFixed(4));
console.error(Date.now() - start);
process.exit(0);
