// run_lines.mjs: which of several runs a process works on, and in which order
//
// There is one line for gates and one for other runs, so that a gate waits for no
// nightly run.  Of each line one run is under way.  One that has nothing to do for
// now, as the job that serves its model waits for a GPU, goes to the end of its
// line, so that it keeps no other waiting.
export class RunLines {
	// work: (run) => whether the run goes on; failed: (error) => what to do with it
	constructor(work, failed) {
		this.work = work;
		this.failed = failed;
		this.waiting = new Map();	// each run's line, in the order in which they come
		this.underWay = new Map();	// each line's run
		this.calls = new Set();
		this.stopped = false;
	}

	has(run) {
		return this.waiting.has(run) || [...this.underWay.values()].includes(run);
	}

	// Adds a run at the end of a line; one that waits already moves there.
	add(run, line) {
		if ([...this.underWay.values()].includes(run))
			return;
		this.waiting.delete(run);
		this.waiting.set(run, line);
	}

	// Begins the first run of each line that has none under way.
	begin() {
		for (const [run, line] of this.waiting) {
			if (this.stopped || this.underWay.has(line))
				continue;
			this.waiting.delete(run);
			this.underWay.set(line, run);
			const call = this.workOn(run, line).finally(() => this.calls.delete(call));
			this.calls.add(call);
		}
	}

	async workOn(run, line) {
		let goesOn = false;

		try {
			goesOn = await this.work(run);
		} catch (error) {
			this.failed(error);
		}
		this.underWay.delete(line);
		if (goesOn)
			this.add(run, line);
		this.begin();
	}

	// Begins no run any more.
	stop() {
		this.stopped = true;
	}

	// Returns when nothing is under way and nothing is left to begin.
	async end() {
		while (this.calls.size > 0)
			await Promise.all(this.calls);
	}
}
