// lm_eval_shots.mjs: the solved examples that lm-eval puts before a question
//
// The examples and their order are those of lm-eval, which chooses them with one
// random generator for all documents of a task, in the documents' order.
import { isDeepStrictEqual } from "node:util";
import { Fields, must, only, TaskFunction } from "./lm_eval_fields.mjs";
import { fromPython } from "./python_values.mjs";
import { PythonRandom } from "./python_random.mjs";

const SHOTS = ["sampler", "split", "samples", "fewshot_indices", "doc_to_text", "doc_to_target", "doc_to_choice",
	"process_docs", "fewshot_delimiter", "target_delimiter"];
const SEED = 1234;		// lm-eval's --seed for examples
const MOST = 1000;

export class Shots {
	constructor(config, documents, given) {
		const own = config.fewshot_config ?? {};

		this.n = given ?? config.num_fewshot ?? 0;
		if (!Number.isInteger(this.n) || this.n < 0 || this.n > MOST)
			throw new Error(`num_fewshot is a number of examples up to ${MOST}, not "${this.n}"`);
		if (this.n === 0)
			return;
		only("fewshot_config", own, SHOTS);
		must("sampler", own.sampler ?? "default", "default", "first_n");
		const split = own.split ?? config.fewshot_split;
		this.first = own.sampler === "first_n";
		this.docs = docsOf(config, documents, own, split);
		this.random = new PythonRandom(SEED);
		// As lm-eval decides whether the question itself may be among the examples.
		this.excludes = (split ?? null) === (config.test_split ?? null);
		this.fields = new Fields({ ...config, ...own });
		this.between = own.fewshot_delimiter ?? config.fewshot_delimiter ?? "\n\n";
		this.answered = own.target_delimiter ?? config.target_delimiter ?? " ";
	}

	// The examples before a document's question, as one text.
	before(doc) {
		return this.n === 0 ? "" : this.chosen(doc).map((one) => {
			const question = this.fields.text(one), answer = this.fields.answer(one);
			return question + (answer === "" ? "" : this.answered + answer + this.between);
		}).join("");
	}

	chosen(doc) {
		const other = (one) => !this.excludes || !isDeepStrictEqual(one, doc);
		const found = this.first ? this.docs.filter(other).slice(0, this.n)
			: this.random.sample(this.docs, this.excludes ? this.n + 1 : this.n).filter(other).slice(0, this.n);

		if (found.length < this.n)
			throw new Error(`there are fewer than ${this.n} examples`);
		return found;
	}
}

function docsOf(config, documents, { samples, fewshot_indices: indices, process_docs: process = config.process_docs }, split) {
	const own = split === undefined && samples !== undefined;
	const usual = config.training_split ?? config.validation_split ?? config.test_split ?? documents.evaluated;
	const all = own ? samples instanceof TaskFunction ? fromPython(samples.call()) : samples
		: documents.of(split ?? usual, split === undefined ? config.process_docs : process).map(({ doc }) => doc);

	if (!Array.isArray(all))
		throw new Error("fewshot_config: samples is no list of documents");
	return (indices ?? [...all.keys()]).map((i) => {
		if (!Object.hasOwn(all, i))
			throw new Error(`fewshot_indices: there is no document ${i} among ${all.length}`);
		return all[i];
	});
}
