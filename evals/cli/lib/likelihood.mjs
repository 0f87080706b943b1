// likelihood.mjs: lm-eval's metrics of its output types multiple_choice and
// loglikelihood
//
// The output is what worker.mjs makes of a model's logprobs: for each text the sum of
// them, and whether each token was the likeliest.

// Whether the likeliest choice is the right one, or one of them: by its likelihood
// (acc, and of a task whose score is mcc or f1), or by that over its length in characters (acc_norm) or bytes (acc_bytes); or
// whether the model would have written a right one (exact_match).  "value" has the
// number of the right choice, or several.
export function isRightChoice({ metric, choices, value }, output) {
	const scores = read(output), right = [value].flat();

	if (metric === "exact_match")
		return right.some((at) => Object.hasOwn(scores, at) && greedy(scores[at]));
	const length = { acc: () => 1, mcc: () => 1, f1: () => 1, acc_norm: (text) => Array.from(text).length, acc_bytes: (text) => Buffer.byteLength(text) }[metric];
	return right.includes(likeliest(scores.map(({ logprob }, i) => logprob / length(String(choices[i])))));
}

// Whether the model would have written the text.  A task whose score is a perplexity
// needs its likelihood alone.
export function isGreedy({ metric }, output) {
	const [first] = read(output);

	return metric === "perplexity" || greedy(first);
}

// The number of the first of the largest.
const likeliest = (all) => all.reduce((most, one, i) => one > all[most] ? i : most, 0);

function greedy({ greedy: is }) {
	if (is === null)
		throw new Error("the endpoint returns no top_logprobs, by which the likeliest token is known");
	return is;
}

function read(output) {
	const scores = JSON.parse(output);

	if (!Array.isArray(scores) || scores.length === 0 || !scores.every((one) => typeof one?.logprob === "number"))
		throw new Error("the output has no likelihoods");
	return scores;
}
