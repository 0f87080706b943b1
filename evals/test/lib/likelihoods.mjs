// likelihoods.mjs SEED N: cases that ask how likely texts are, made up, one a line:
// the check, the texts, a model's output, and whether the check passes
//
// Few lengths and likelihoods make ties frequent.
import { isGreedy, isRightChoice } from "../../cli/lib/likelihood.mjs";

let state = Number(process.argv[2]) >>> 0;
const below = (n) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0, Math.floor(state / 2 ** 32 * n));
const oneOf = (...all) => all[below(all.length)];
const TEXTS = ["a", "é", "😀", "ab", "日本", "a b c", " ", "x".repeat(7)];

for (let i = 0; i < Number(process.argv[3]); i++) {
	const type = below(6) ? "multiple_choice" : "loglikelihood";
	const choices = Array.from({ length: type === "loglikelihood" ? 1 : 1 + below(5) }, () => oneOf(...TEXTS));
	const metric = type === "loglikelihood" ? oneOf("acc", "acc", "perplexity")
		: choices.length === 2 ? oneOf("acc", "acc_norm", "f1", "mcc") : oneOf("acc", "acc_norm", "acc_bytes", "exact_match", "mcc");
	const at = () => oneOf(below(choices.length), below(choices.length), below(choices.length), 7, -1);
	const value = metric === "f1" || metric === "mcc" ? below(choices.length) : below(3) ? at() : Array.from({ length: below(4) }, at);
	const scores = choices.map(() => ({ logprob: oneOf(-1, -2, -0.1 - 0.2, -0.3, -1 / 3, 0, -1e-320, -(below(1000) + 1) / 7), tokens: 1 + below(3),
		greedy: oneOf(true, false, false, metric === "exact_match" || type === "loglikelihood" ? null : false) }));
	const check = { type, metric, ...type === "loglikelihood" ? {} : { choices, value } };
	let pass;
	try {
		pass = type === "loglikelihood" ? isGreedy(check, JSON.stringify(scores)) : isRightChoice(check, JSON.stringify(scores));
	} catch {
		pass = false;		// what is greedy is not known
	}
	console.log(JSON.stringify({ check, texts: choices, output: JSON.stringify(scores), pass }));
}
