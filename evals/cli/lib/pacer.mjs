// pacer.mjs: limits an endpoint's requests a second, over all workers
//
// The database assigns turns, for a short time ahead.  Callers that wait at once
// take theirs in one call, in the order in which they came; those without a turn
// ask again while others' turns are still to come.
import { setTimeout as sleep } from "node:timers/promises";

const SHORTEST_WAIT = 20;

export class Pacer {
	// take: (n) => { wait, every, granted }: milliseconds, and how many have a turn
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
			const asked = this.waiting.length;
			try {
				const { wait, every, granted } = await this.take(asked);
				this.waiting.splice(0, granted).forEach(({ resolve }, i) => sleep(wait + i * every).then(resolve));
				if (granted < asked)
					await sleep(Math.max(SHORTEST_WAIT, (wait + granted * every) / 2));
			} catch (error) {
				this.waiting.splice(0, asked).forEach(({ reject }) => reject(error));
			}
		}
		this.asking = false;
	}
}
