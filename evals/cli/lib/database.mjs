// database.mjs: calls of gpucredit_eval's functions
//
// Each is one statement, and may be repeated: all that move money have a key.
// So a call that a serialization failure or a lost server ended is made again,
// for as long as the caller waits.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { oneLine } from "./log.mjs";

const CONNECTIONS = 8;
// the SQLSTATEs after which C programs repeat a call (lib/call_repeat.c), and what Node.js says of a lost connection
const AGAIN = /^(40|08|57|25006|53|55P03|58|UC202|ECONN|ENOENT|EPIPE)/;

export class Database {
	// address: a libpq URL; without one the PG* variables say where
	constructor(address, { patience = 60_000 } = {}) {
		this.pool = new pg.Pool({ ...address ? { connectionString: address } : {}, max: CONNECTIONS,
			application_name: "gpucredit-eval" });
		this.pool.on("error", () => {});	// an idle connection broke: the next call opens one
		this.patience = patience;
	}

	// The rows of a function of ours.  Arguments follow their names' order.
	async rows(name, ...values) {
		const text = `SELECT * FROM gpucredit_eval.${name}(${values.map((_, i) => `$${i + 1}`).join(", ")})`;
		const end = Date.now() + this.patience;
		let said = false;

		for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
			try {
				const { rows } = await this.pool.query({ name, text, values });
				if (said)
					process.stderr.write("gpucredit-eval: the database answers again\n");
				return rows;
			} catch (error) {
				const lost = AGAIN.test(error.code ?? "") || /Connection terminated|timeout/.test(error.message);
				if (!lost || Date.now() > end)
					throw error;
				if (!said && !/^40/.test(error.code ?? "")) {
					said = true;
					process.stderr.write(`gpucredit-eval: the database does not answer (${oneLine(error.message)}), trying again for ${
						Math.ceil((end - Date.now()) / 1000)} s\n`);
				}
				await sleep(wait);
			}
		}
	}

	// Its only row, or that row's only value.
	async row(name, ...values) {
		return (await this.rows(name, ...values))[0];
	}

	async value(name, ...values) {
		return Object.values(await this.row(name, ...values))[0];
	}

	close() {
		return this.pool.end();
	}
}
