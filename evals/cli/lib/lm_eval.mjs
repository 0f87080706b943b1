// lm_eval.mjs: cases from a task of lm-eval and its documents
//
// The task's YAML names its documents as data_files, or they are given.
import { readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import yaml from "js-yaml";
import { pythonRegex } from "./exact_match.mjs";
import { readJsonLines } from "./lines.mjs";
import { render } from "./prompt.mjs";

const TASK = ["task", "tag", "task_alias", "dataset_path", "dataset_name", "dataset_kwargs", "test_split",
	"validation_split", "training_split", "output_type", "doc_to_text", "doc_to_target", "description",
	"generation_kwargs", "filter_list", "metric_list", "num_fewshot", "repeats", "metadata"];
const GENERATION = ["until", "do_sample", "temperature", "max_gen_toks", "max_tokens"];
const METRIC = ["metric", "aggregation", "higher_is_better", "ignore_case", "ignore_punctuation", "ignore_numbers",
	"regexes_to_ignore"];
const IGNORE = METRIC.slice(3);

export function fromLmEval(file, { documents, filter, task } = {}) {
	const config = yaml.load(readFileSync(file, "utf8"));
	const check = checkOf(config, filter);
	const data = documents ?? resolve(dirname(file), dataFile(config));

	return readJsonLines(data).map(({ line, value: doc }) => ({
		name: String(line), task: task ?? config.task, source: `${basename(data)}: line ${line}`,
		input: { messages: [{ role: "user", content: field(config.description ?? "", doc) + field(config.doc_to_text, doc) }] },
		expected: field(config.doc_to_target, doc),
		checks: [{ ...check, value: field(config.doc_to_target, doc) }],
	}));
}

function only(where, object, known) {
	for (const key of Object.keys(object))
		if (!known.includes(key))
			throw new Error(`${where}: "${key}" is not supported`);
}

function must(where, value, ...allowed) {
	if (!allowed.includes(value))
		throw new Error(`${where} "${value}" is not supported; what is: ${allowed.join(", ")}`);
}

// The check that each document has, but for its target.
function checkOf(config, filterName) {
	only("task", config, TASK);
	must("output_type", config.output_type, "generate_until");
	must("num_fewshot", config.num_fewshot ?? 0, 0);
	must("repeats", config.repeats ?? 1, 1);
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
		...generation.until ? { until: [generation.until].flat() } : {},
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

function dataFile(config) {
	must("dataset_path", config.dataset_path, "json");
	const files = config.dataset_kwargs?.data_files;
	const file = typeof files === "object" && !Array.isArray(files)
		? files[config.test_split ?? config.validation_split ?? "test"] : files;
	if (typeof file !== "string")
		throw new Error("dataset_kwargs: data_files names no file of the test split");
	return file;
}

// A field's name, or a template.
function field(source, doc) {
	if (typeof source !== "string" || source.startsWith("!function"))
		throw new Error(`${JSON.stringify(source)} is not supported: a field's name or a template is`);
	if (!Object.hasOwn(doc, source))
		return render(source, doc);
	if (Array.isArray(doc[source]))
		throw new Error(`field "${source}" is a list: several targets are not supported`);
	return String(doc[source]);
}
