// sandbox_process.mjs: what sandbox.mjs starts, and sends tasks to
//
// The process has the memory that its command line says, and ends with its
// parent: a thread watches that, as a task may keep the main thread busy.
import { Worker as Thread, isMainThread, workerData } from "node:worker_threads";
import { runChecks } from "./checks.mjs";
import { caseMessages, judgeMessages } from "./prompt.mjs";

const WATCH = 1000;

const tasks = {
	checks: ({ checks, output, threshold }) => runChecks(checks, output, threshold),
	caseMessages: ({ input, template }) => caseMessages(input, template),
	judgeMessages: (asked) => judgeMessages(asked),
};

function answer({ name, argument }) {
	try {
		return { value: tasks[name](argument) };
	} catch (error) {
		return { error: String(error?.message ?? error) };
	}
}

if (isMainThread) {
	new Thread(new URL(import.meta.url), { workerData: process.ppid }).unref();
	for (const signal of ["SIGINT", "SIGTERM"])		// the parent ends it
		process.on(signal, () => {});
	process.on("disconnect", () => process.exit());
	process.on("message", (task) => process.send(answer(task)));
	process.send("ready");
} else
	setInterval(() => {
		if (process.ppid !== workerData)
			process.kill(process.pid, "SIGKILL");
	}, WATCH);
