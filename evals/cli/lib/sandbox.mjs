// sandbox.mjs: checks and templates in a process with limits of time and memory
//
// A set's regular expressions and templates come from whoever wrote it, and may
// run for ever or grow without end.  Here they keep another process busy and not
// the worker, which kills it, counts the case as failed and starts another one.
// It is a process and no thread, as V8 ends all threads where one runs out of
// memory at once.
//
// V8 tries regular expressions by backtracking.  One that backtracks too often
// it hands to its engine that needs linear time, which has no lookaround and no
// back references; one with these has the limit of time alone.
import { fork } from "node:child_process";

export const LIMITS = { ms: 5000, mebibytes: 256 };

// A task that did not end within the limits, or that went wrong.
export class Failed extends Error {}

export class Sandbox {
	constructor({ ms = LIMITS.ms, mebibytes = LIMITS.mebibytes } = {}) {
		Object.assign(this, { ms, mebibytes, waiting: [], running: null, child: null });
	}

	// Runs a task by its name; rejects with Failed.  One runs after the other.
	run(name, argument) {
		return new Promise((resolve, reject) => {
			this.waiting.push({ name, argument, resolve, reject });
			this.next();
		});
	}

	close() {
		this.closed = true;
		clearTimeout(this.timer);
		this.child?.kill("SIGKILL");
	}

	next() {
		if (this.running || this.waiting.length === 0 || this.closed)
			return;
		this.running = this.waiting.shift();
		this.child ??= this.start();
		if (this.child.isReady)
			this.send();
	}

	// The process's own start is no time of a task.
	start() {
		const child = fork(new URL("sandbox_process.mjs", import.meta.url), {
			env: {}, serialization: "advanced", stdio: ["ignore", "ignore", "ignore", "ipc"],
			execArgv: [`--max-old-space-size=${this.mebibytes}`,
				"--enable-experimental-regexp-engine-on-excessive-backtracks"] });

		child.on("message", (message) => {
			if (message !== "ready")
				return this.end(message);
			child.isReady = true;
			this.send();
		});
		child.on("error", (error) => this.lose(child, error.message));
		child.on("exit", () => this.lose(child, `it needs more than ${this.mebibytes} MiB, or crashed`));
		return child;
	}

	send() {
		const { child, running: task } = this;

		if (!task)
			return;
		this.timer = setTimeout(() => {
			this.lose(child, `it takes more than ${this.ms} ms`);
			child.kill("SIGKILL");
		}, this.ms);
		child.send({ name: task.name, argument: task.argument }, () => {});	// "exit" says if it is gone
	}

	end({ value, error }) {
		const { resolve, reject } = this.running;

		clearTimeout(this.timer);
		this.running = null;
		if (error === undefined)
			resolve(value);
		else
			reject(new Failed(error));
		this.next();
	}

	// The process is gone, and what it worked on has failed.
	lose(child, why) {
		if (this.child !== child)
			return;
		this.child = null;
		clearTimeout(this.timer);
		const task = this.running;
		this.running = null;
		task?.reject(new Failed(why));
		this.next();
	}
}
