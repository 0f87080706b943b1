// lm_eval.mjs: cases from a task's YAML of lm-eval, or from a group of tasks
//
// A group's YAML names its tasks, which are found by their names below its folder.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import yaml from "js-yaml";
import { only, TaskFunction } from "./lm_eval_fields.mjs";
import { casesOf } from "./lm_eval_task.mjs";
import { RegistryDatasets } from "./registry_datasets.mjs";

const GROUP = ["group", "group_alias", "task", "aggregate_metric_list", "metadata"];
const MOST_DEPTH = 20;

// The same, of which the documents are datasets of a registry if one is named.
export async function importLmEval(file, options = {}) {
	const { registry, dataset, documents } = options;

	if (registry === undefined && dataset !== undefined)
		throw new Error("--dataset is a dataset of a registry: name it with --registry");
	if (registry === undefined)
		return fromLmEval(file, options);
	if (documents !== undefined)
		throw new Error("--documents and --registry both say where the documents are");
	return new RegistryDatasets(registry, { dataset, token: process.env.REGISTRY_TOKEN })
		.reading((datasets) => fromLmEval(file, { ...options, datasets }));
}

// A file's YAML.  Functions are in files beside the one that names them.
const parse = (file) => yaml.load(readFileSync(file, "utf8"), { schema: yaml.DEFAULT_SCHEMA.extend([
	new yaml.Type("!function", { kind: "scalar", construct: (name) => new TaskFunction(dirname(file), name) })]) }) ?? {};

export function fromLmEval(file, options = {}) {
	const config = readYaml(file);

	if (!Array.isArray(config.task))
		return casesOf(config, file, options);
	if (options.task !== undefined || options.documents !== undefined && !statSync(options.documents).isDirectory())
		throw new Error("a group has several tasks: --task names one, and --documents a folder");
	const cases = tasksOf(config, file, filesByName(dirname(file)), 0)
		.flatMap(([one, from]) => casesOf(one, from, options).map((found) => ({ ...found, name: `${one.task}/${found.name}` })));
	const byName = new Map();

	for (const one of cases) {		// a task may be part of several groups, but is one task
		if (JSON.stringify(byName.get(one.name) ?? one) !== JSON.stringify(one))
			throw new Error(`task "${one.task}" is in group "${config.group}" twice, in two forms`);
		byName.set(one.name, one);
	}
	return [...byName.values()];
}

// A document with what it includes, of which its own fields are the stronger, and
// of several files the first ones.
function readYaml(file, depth = 0) {
	const { include = [], ...own } = parse(file);

	if (depth > MOST_DEPTH)
		throw new Error(`${basename(file)}: files include each other`);
	return Object.assign({}, ...[include].flat().reverse().map((path) => readYaml(resolve(dirname(file), path), depth + 1)), own);
}

// The tasks of a group, each with the file that it comes from.
function tasksOf(config, file, byName, depth) {
	if (depth > MOST_DEPTH)
		throw new Error(`group "${config.group}" has itself as a part`);
	only("group", config, GROUP);
	return config.task.flatMap((entry) => {
		const { task: name, ...changes } = typeof entry === "object" && entry !== null ? entry : { task: entry };
		if (Array.isArray(name))
			return tasksOf(entry, file, byName, depth + 1);
		if (!byName.has(name))
			throw new Error(`group "${config.group}": there is no task "${name}" below ${dirname(file)}`);
		const found = byName.get(name), one = readYaml(found);
		return Array.isArray(one.task) ? tasksOf(one, found, byName, depth + 1) : [[{ ...one, ...changes }, found]];
	});
}

// The YAML files below a folder, by the task or group that each defines.
function filesByName(folder) {
	const found = new Map();

	for (const name of readdirSync(folder, { recursive: true }).map(String).filter((one) => /\.ya?ml$/.test(one)).sort()) {
		const file = resolve(folder, name), config = parse(file);
		const named = typeof config.task === "string" ? config.task : config.group;
		if (named && found.has(named))
			throw new Error(`"${named}" is defined by ${basename(found.get(named))} and ${name}`);
		if (named)
			found.set(named, file);
	}
	return found;
}
