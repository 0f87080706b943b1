// pacer.mjs: limits an endpoint's requests a second, over all workers
//
// The database assigns turns.  Callers that wait at once take theirs in one
// call, in the order in which they came.
import { setTimeout as sleep } from "node:timers/promises";

export class Pacer {
	// take: (n) => { wait, every } in milliseconds
	constructor(take) {
		this.take = take;
		this.waiting = [];
		this.asking = false;
	}

	next() {
		return new Promise((resolve, reject) => {
			this.waiting.push({ resolve, reject });
			if (!this.asking)
				this.ask();
		});
	}

	async ask() {
		this.asking = true;
		while (this.waiting.length > 0) {
			const callers = this.waiting.splice(0, this.waiting.length);
			try {
				const { wait, every } = await this.take(callers.length);
				callers.forEach(({ resolve }, i) => sleep(wait + i * every).then(resolve));
			} catch (error) {
				callers.forEach(({ reject }) => reject(error));
			}
		}
		this.asking = false;
	}
}
