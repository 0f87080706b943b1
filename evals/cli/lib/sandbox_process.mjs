// sandbox_process.mjs: what sandbox.mjs starts, and sends tasks to
//
// The process has the memory that its command line says, and ends with its
// parent: a thread watches that, as a task may keep the main thread busy.  What
// it answers is short, as the parent has no such limit: a prompt is one that
// credit is set aside for, and an error has 1,000 characters at most.
import { Worker as Thread, isMainThread, workerData } from "node:worker_threads";
import { runChecks } from "./checks.mjs";
import { casePrompt, judgePrompt } from "./prompt.mjs";
import { withScripts } from "./script.mjs";

const WATCH = 1000;

const tasks = {
	checks: ({ checks, output, threshold, call }) => runChecks(checks, output, threshold, call),
	casePrompt,
	judgePrompt,
};

async function answer({ name, argument }) {
	try {
		return { value: await withScripts(() => tasks[name](argument)) };
	} catch (error) {
		return { error: String(error?.message ?? error).slice(0, 1000) };
	}
}

if (isMainThread) {
	new Thread(new URL(import.meta.url), { workerData: process.ppid }).unref();
	for (const signal of ["SIGINT", "SIGTERM"])		// the parent ends it
		process.on(signal, () => {});
	process.on("disconnect", () => process.exit());
	process.on("message", async (task) => process.send(await answer(task)));
	process.send("ready");
} else
	setInterval(() => {
		if (process.ppid !== workerData)
			process.kill(process.pid, "SIGKILL");
	}, WATCH);
