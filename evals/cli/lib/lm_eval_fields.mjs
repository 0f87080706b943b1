// lm_eval_fields.mjs: what a task of lm-eval makes of a document: a question, the
// answer, and the choices
import { existsSync } from "node:fs";
import { literal, pythonFunction } from "./python.mjs";
import { fromPython, str, toPython } from "./python_values.mjs";
import { render } from "./prompt.mjs";

export function only(where, object, known) {
	for (const key of Object.keys(object))
		if (!known.includes(key))
			throw new Error(`${where}: "${key}" is not supported`);
}

export function must(where, value, ...allowed) {
	if (!allowed.includes(value))
		throw new Error(`${where} "${value}" is not supported; what is: ${allowed.join(", ")}`);
}

// What "!function file.name" of a task's YAML stands for: a function of a Python
// file beside it, which python.mjs computes.
export class TaskFunction {
	constructor(folder, name) {
		Object.assign(this, { folder, name });
	}

	call(...args) {
		const [, file, name] = /^([\w-]+(?:\.[\w-]+)*)\.(\w+)$/.exec(this.name) ?? [];

		if (file === undefined)
			throw new Error(`!function "${this.name}" is not supported: it names a file beside the YAML and a function of it`);
		const path = `${this.folder}/${file}.py`;
		if (!existsSync(path))
			throw new Error(`!function "${this.name}": there is no file ${file}.py beside the YAML`);
		return pythonFunction(path, name)(...args);
	}
}

export class Fields {
	constructor({ doc_to_text: text, doc_to_target: target, doc_to_choice: choice, description = "" }) {
		Object.assign(this, { sources: { text, target, choice, description } });
	}

	description(doc) {
		return str(field("description", this.sources.description, doc));
	}

	// What is asked: a text, or the number of the choice that is right, where the
	// choices are what is asked.
	question(doc) {
		return field("doc_to_text", this.sources.text, doc, this.sources.choice === undefined ? undefined : asNumber);
	}

	// The question as an example has it.
	text(doc) {
		const found = this.question(doc);
		return typeof found === "number" && this.sources.choice !== undefined ? this.choiceAt(doc, found) : str(found);
	}

	choiceAt(doc, at) {
		const choices = this.choices(doc);

		if (!Object.hasOwn(choices, at))
			throw new Error(`there is no choice ${at} of ${choices.length}`);
		return choices[at];
	}

	// The numbers of the right choices: one, or a list.  A number beyond the choices
	// is never right.
	right(doc) {
		const choices = this.choices(doc), found = this.rawTarget(doc);
		const numberOf = (one) => typeof one === "string" ? choices.indexOf(one) : one;

		return Array.isArray(found) ? found.map(numberOf) : numberOf(found);
	}

	// The answer as an example has it: of several choices the one that is right, and
	// of several targets the first.
	answer(doc) {
		const target = this.target(doc);
		return str((Array.isArray(target) ? target[0] : target) ?? null);
	}

	// The one right answer of a document.
	target(doc) {
		const found = this.rawTarget(doc);

		return typeof found === "number" && this.sources.choice !== undefined ? this.choiceAt(doc, found) : found;
	}

	rawTarget(doc) {
		const isChoice = this.sources.choice !== undefined;
		return field("doc_to_target", this.sources.target, doc, (text) => isChoice && typeof asNumber(text) === "number" ? asNumber(text) : asList(text));
	}

	choices(doc) {
		const { choice } = this.sources;

		if (choice === undefined)
			return undefined;
		const found = Array.isArray(choice) ? choice : isPlain(choice) ? Object.values(choice) : field("doc_to_choice", choice, doc);
		const list = typeof found === "string" ? fromPython(literal(found)) : found;
		if (!Array.isArray(list) || list.length === 0)
			throw new Error("doc_to_choice is no list of choices");
		return list.map(str);
	}
}

const isPlain = (value) => typeof value === "object" && value !== null && !(value instanceof TaskFunction);

// A text of digits, which a template makes of a number, is one.
const asNumber = (text) => /^[0-9]+$/.test(text) ? Number(text) : text;

// A text like a list is one, as lm-eval reads it.
function asList(text) {
	if (!/^\[.*\]$/s.test(text))
		return text;
	try {
		return fromPython(literal(text));
	} catch {
		return text;
	}
}

// A field's name, a template, whose text may be read as something else, or a
// function.
function field(where, source, doc, read = (text) => text) {
	if (source instanceof TaskFunction)
		return fromPython(source.call(toPython(doc)));
	if (typeof source === "number")
		return source;
	if (typeof source !== "string")
		throw new Error(`${where}: ${JSON.stringify(source)} is not supported: a field's name, a template or a function is`);
	return Object.hasOwn(doc, source) ? doc[source] : read(render(source, doc));
}
