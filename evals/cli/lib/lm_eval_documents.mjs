// lm_eval_documents.mjs: the documents of a task of lm-eval, by the splits of its
// dataset
//
// They are the data_files that the task's YAML names, or JSON Lines that the
// importer's caller names: one file, or a folder with a file for each split; or they
// are a dataset of the registry.
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { readJsonLines } from "./lines.mjs";
import { TaskFunction } from "./lm_eval_fields.mjs";
import { Dataset, fromPython, toPython } from "./python_values.mjs";

export class Documents {
	constructor(config, file, given, registry) {
		Object.assign(this, { config, file, given, registry });
		this.evaluated = config.test_split ?? config.validation_split ?? "test";
	}

	// The documents of a split, each as { doc, line, source }, as a function of the
	// task leaves them, if there is one.
	of(split, process) {
		const { path, label: source } = this.find(split);
		const found = readJsonLines(path).map(({ line, value }) => ({ doc: value, line, source: `${source}: line ${line}` }));

		if (process === undefined)
			return found;
		if (!(process instanceof TaskFunction))
			throw new Error("process_docs is no !function");
		const made = process.call(new Dataset(found.map(({ doc }) => toPython(doc)), found.map(({ line }) => line)));
		const { docs, lines } = made instanceof Dataset ? made : { docs: made, lines: [] };
		if (!Array.isArray(docs) || !docs.every((doc) => doc instanceof Map))
			throw new Error(`process_docs: !function ${process.name} returns no documents`);
		return docs.map((doc, i) => ({ doc: fromPython(doc), line: lines[i] ?? i + 1,
			source: lines[i] ? `${source}: line ${lines[i]}` : `${source}: document ${i + 1} of process_docs` }));
	}

	// The file of a split, and what to call it.
	find(split) {
		if (this.registry)
			return this.registry.find(this.config, split);
		const path = this.path(split);
		return { path, label: basename(path) };
	}

	path(split) {
		const { config: { dataset_name: name, dataset_path: path, dataset_kwargs: kwargs }, given } = this;

		if (given !== undefined && statSync(given).isDirectory())
			return inFolder(given, split, name);
		if (given !== undefined && split === this.evaluated)
			return given;
		if (given !== undefined)
			throw new Error(`--documents is the file of split "${this.evaluated}", and examples come from split "${split}": `
				+ "name a folder with a file for each split");
		if (path !== "json")
			throw new Error(`dataset_path "${path}" is not supported; what is: json, --documents or --registry`);
		const files = kwargs?.data_files;
		const one = typeof files === "object" && !Array.isArray(files) ? files?.[split]
			: split === this.evaluated ? files : undefined;
		if (typeof one !== "string")
			throw new Error(`dataset_kwargs: data_files names no file of split "${split}"`);
		return resolve(dirname(this.file), one);
	}
}

// The file of a split in a folder, where configurations of a dataset may have
// folders of their own.
function inFolder(folder, split, name) {
	const tried = [...name ? [join(folder, name)] : [], folder].map((one) => join(one, `${split}.jsonl`));
	const found = tried.find((path) => existsSync(path));

	if (found === undefined)
		throw new Error(`split "${split}" has no file: ${tried.join(" or ")}`);
	return found;
}
