// similarity.mjs: how similar an answer is to given texts, as promptfoo's assertion
// "similar" decides it
//
// worker.mjs has an embedding model make a vector of each text, and hands their
// cosines to the checks.
const THRESHOLD = 0.75;

export const isSimilarity = ({ type }) => /^(not-)?similar$/.test(type);

export function cosine(one, other) {
	const product = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

	return product(one, other) / (Math.sqrt(product(one, one)) * Math.sqrt(product(other, other)));
}

// All texts with which checks compare an answer, each once.
export const textsOf = (checks) => [...new Set(checks.filter(isSimilarity).flatMap(({ value }) => value))];

// The verdict of one check.  Of several texts one has to be similar enough: the first
// such counts, else the most similar one.  Of an opposite none may be: the first that
// is counts, else the most similar one.  "similarities" has each text with its cosine.
export function similarTo({ value, threshold = THRESHOLD }, output, inverse, similarities) {
	if (output === "")
		return { pass: false, score: 0, reason: "the answer is empty" };
	const results = [value].flat().map((text) => {
		const [, similarity] = similarities?.find(([other]) => other === text) ?? [];
		if (similarity === undefined)
			throw new Error("no embedding model was asked how similar the answer is");
		const pass = inverse ? similarity <= threshold + Number.EPSILON : similarity >= threshold - Number.EPSILON;
		return { pass, score: inverse ? 1 - similarity : similarity,
			reason: `similarity ${similarity.toFixed(2)}, threshold ${threshold}` };
	});

	return results.find(({ pass }) => pass !== inverse)
		?? results.reduce((most, one) => (inverse ? one.score < most.score : one.score > most.score) ? one : most);
}
