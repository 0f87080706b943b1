// python_random.mjs: the random numbers of Python's module random, with which
// lm-eval chooses the examples of a prompt
//
// The generator is MT19937 (Matsumoto and Nishimura, 1998).  PythonRandom(n) gives
// what random.Random(n) gives in Python 3.11 and later, for a seed below 2^32.
const N = 624, M = 397;

export class PythonRandom {
	constructor(seed) {
		this.state = seeded(seed);
		this.at = N;
	}

	// A whole number of 32 random bits.
	next() {
		if (this.at === N)
			this.twist();
		let y = this.state[this.at++];
		y ^= y >>> 11;
		y ^= y << 7 & 0x9d2c5680;
		y ^= y << 15 & 0xefc60000;
		return (y ^ y >>> 18) >>> 0;
	}

	twist() {
		const { state } = this;

		for (let i = 0; i < N; i++) {
			const y = state[i] & 0x80000000 | state[(i + 1) % N] & 0x7fffffff;
			state[i] = state[(i + M) % N] ^ y >>> 1 ^ (y & 1 ? 0x9908b0df : 0);
		}
		this.at = 0;
	}

	// A whole number from 0 to n - 1.
	below(n) {
		const bits = 32 - Math.clz32(n);
		let found;

		do
			found = this.next() >>> 32 - bits;
		while (found >= n);
		return found;
	}

	// random.sample(): k members of a list, in random order.
	sample(list, k) {
		if (k > list.length)
			throw new Error(`${k} of ${list.length} documents cannot be chosen`);
		const few = 21 + (k > 5 ? 4 ** Math.ceil(Math.log(k * 3) / Math.log(4)) : 0);
		if (list.length <= few) {
			const pool = [...list];
			return Array.from({ length: k }, (_, i) => {
				const at = this.below(list.length - i), found = pool[at];
				pool[at] = pool[list.length - i - 1];
				return found;
			});
		}
		const chosen = new Set();
		while (chosen.size < k)
			chosen.add(this.below(list.length));
		return [...chosen].map((at) => list[at]);
	}
}

// init_genrand(19650218), and init_by_array() with the seed as its only key.
function seeded(seed) {
	const state = new Uint32Array(N);
	const mixed = (i) => state[i - 1] ^ state[i - 1] >>> 30;
	const wrap = (i) => {
		if (i < N)
			return i;
		state[0] = state[N - 1];
		return 1;
	};

	state[0] = 19650218;
	for (let i = 1; i < N; i++)
		state[i] = Math.imul(1812433253, mixed(i)) + i;
	let i = 1;
	for (let k = 0; k < N; k++) {
		state[i] = (state[i] ^ Math.imul(mixed(i), 1664525)) + seed;
		i = wrap(i + 1);
	}
	for (let k = 0; k < N - 1; k++) {
		state[i] = (state[i] ^ Math.imul(mixed(i), 1566083941)) - i;
		i = wrap(i + 1);
	}
	state[0] = 0x80000000;
	return state;
}
