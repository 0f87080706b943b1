// lm_eval_task.mjs: the cases of one task of lm-eval
import { Documents } from "./lm_eval_documents.mjs";
import { Fields, must, only } from "./lm_eval_fields.mjs";
import { Shots } from "./lm_eval_shots.mjs";
import { str } from "./python_values.mjs";
import { pythonRegex } from "./python_regex.mjs";

const TASK = ["task", "tag", "task_alias", "dataset_path", "dataset_name", "dataset_kwargs", "test_split",
	"validation_split", "training_split", "output_type", "doc_to_text", "doc_to_target",
	"doc_to_choice", "process_docs", "description",
	"generation_kwargs", "filter_list", "metric_list", "num_fewshot", "fewshot_split", "fewshot_config",
	"fewshot_delimiter", "target_delimiter", "repeats", "should_decontaminate", "doc_to_decontamination_query",
	"metadata"];
const GENERATION = ["until", "do_sample", "temperature", "max_gen_toks", "max_tokens"];
const METRIC = ["metric", "aggregation", "higher_is_better", "ignore_case", "ignore_punctuation", "ignore_numbers",
	"regexes_to_ignore"];
const IGNORE = METRIC.slice(3);

// Metrics without which a task has these, and how those are aggregated that are no
// means.
const DEFAULT_METRICS = { multiple_choice: ["acc", "acc_norm"], loglikelihood: ["perplexity", "acc"] };
const AGGREGATION = { perplexity: "perplexity", mcc: "matthews_corrcoef", f1: "f1" };

export function casesOf(config, file, { documents: given, datasets, filter, metric, task, "num-fewshot": shots }) {
	only("task", config, TASK);
	must("output_type", config.output_type ?? "generate_until", "generate_until", "multiple_choice", "loglikelihood");
	const fields = new Fields(config);
	const documents = new Documents(config, file, given, datasets);
	const examples = new Shots(config, documents, shots === undefined ? undefined : Number(shots));
	must("repeats", config.repeats ?? 1, 1);
	const measure = ["multiple_choice", "loglikelihood"].includes(config.output_type)
		? likelihoodOf(config, fields, examples, metric) : generationOf(checkOf(config, filter, examples.n > 0), fields, examples);

	return documents.of(documents.evaluated, config.process_docs).map(({ doc, line, source }) => {
		try {
			return { name: String(line), task: task ?? config.task, source, ...measure(doc) };
		} catch (error) {
			throw new Error(`${source}: ${error.message}`);
		}
	});
}

// What a case of output type generate_until is asked, expected and checked.
function generationOf(check, fields, examples) {
	return (doc) => {
		const target = fields.target(doc);

		if (Array.isArray(target))
			throw new Error("doc_to_target is a list: several targets are not supported");
		return {
			input: { messages: [{ role: "user", content: fields.description(doc) + examples.before(doc) + fields.text(doc) }] },
			expected: str(target),
			checks: [{ ...check, value: str(target) }],
		};
	};
}

// The same of output types multiple_choice and loglikelihood.  Of several metrics one
// is chosen, and the others inform.  Where doc_to_text is a number, the choices are
// what is asked, and what follows is the same for all.
function likelihoodOf(config, fields, examples, name) {
	const type = config.output_type, delimiter = config.target_delimiter ?? " ";
	const known = type === "loglikelihood" ? ["acc", "perplexity"] : ["acc", "acc_norm", "acc_bytes", "exact_match", "mcc", "f1"];
	const all = (config.metric_list ?? DEFAULT_METRICS[type].map((metric) => ({ metric }))).map(({ metric, aggregation }) => {
		if (known.includes(metric))
			must(`aggregation of ${metric}`, aggregation ?? AGGREGATION[metric] ?? "mean", AGGREGATION[metric] ?? "mean");
		return metric;
	});
	const metrics = all.filter((one) => known.includes(one));

	if (config.filter_list !== undefined)
		throw new Error("filter_list is not supported, as there is no answer to filter");
	if (all.length > 1 && name === undefined && !(type === "loglikelihood" && config.metric_list === undefined))
		throw new Error(`choose one with --metric: ${metrics.join(", ")}`);
	const chosen = name ?? (all.length > 1 ? "acc" : all[0]);
	must("metric", chosen, ...metrics.length ? metrics : known);
	metrics.sort((a, b) => (b === chosen) - (a === chosen));
	const checksOf = (more) => metrics.map((metric, i) => ({ type, metric, ...more, ...i ? { weight: 0 } : {} }));

	return (doc) => {
		const before = fields.description(doc) + examples.before(doc), choices = fields.choices(doc), asked = fields.question(doc);

		if (type === "loglikelihood") {
			const target = str(fields.target(doc));
			return { input: { requests: [{ context: before + str(asked), continuation: target }] }, expected: target, checks: checksOf({}) };
		}
		if (choices === undefined)
			throw new Error("output_type multiple_choice needs doc_to_choice");
		const right = typeof asked === "number" ? asked : fields.right(doc);
		if (["mcc", "f1"].includes(metrics[0]) && Array.isArray(right))
			throw new Error(`metric ${metrics[0]} needs one right choice, and there are ${right.length}`);
		if (metrics[0] === "f1" && choices.length !== 2)
			throw new Error(`metric f1 needs two choices, and there are ${choices.length}`);
		const requests = choices.map((choice) => typeof asked === "number"
			? { context: before + choice, continuation: delimiter + str(fields.target(doc)) }
			: { context: before + str(asked), continuation: delimiter + choice });
		return { input: { requests }, expected: choices[[right].flat()[0]] ?? null, checks: checksOf({ choices, value: right }) };
	};
}

// The check that each document has, but for its target.
function checkOf(config, filterName, hasExamples) {
	const generation = config.generation_kwargs ?? {};
	only("generation_kwargs", generation, GENERATION);
	must("do_sample", generation.do_sample ?? false, false);
	const metrics = config.metric_list ?? [{ metric: "exact_match" }];
	if (metrics.length !== 1)
		throw new Error(`${metrics.length} metrics are not supported: a task has one`);
	const [metric] = metrics;
	must("metric", metric.metric, "exact_match");
	must("aggregation", metric.aggregation ?? "mean", "mean");
	only("exact_match", metric, METRIC);
	(metric.regexes_to_ignore ?? []).forEach(pythonRegex);
	return {
		type: "exact_match",
		...Object.fromEntries(IGNORE.filter((key) => metric[key]).map((key) => [key, metric[key]])),
		...generation.until ? { until: [generation.until].flat() }
			: hasExamples ? { until: [config.fewshot_delimiter ?? "\n\n"] } : {},
		...filterOf(config.filter_list ?? [], filterName),
	};
}

function filterOf(filters, name) {
	if (filters.length > 1 && !name)
		throw new Error(`choose one with --filter: ${filters.map((one) => one.name).join(", ")}`);
	const chosen = name ? filters.find((one) => one.name === name) : filters[0];
	if (name && !chosen)
		throw new Error(`there is no filter "${name}"`);
	let found = {};
	for (const { function: kind, regex_pattern, ...rest } of chosen?.filter ?? []) {
		must("filter", kind, "regex", "take_first");
		only(kind, rest, kind === "regex" ? ["group_select", "fallback"] : []);
		if (kind === "regex" && found.filter)
			throw new Error("two regex filters are not supported: one extracts the answer");
		if (kind === "regex") {
			const pattern = regex_pattern ?? "#### (\\-?[0-9\\.\\,]+)";
			pythonRegex(pattern);
			found = { filter: { pattern, ...rest } };
		}
	}
	return found;
}
