// python.mjs: functions of a Python file, as lm-eval's tasks have them beside their
// YAML, computed without Python
//
// A task's functions come from whoever wrote the task, so they never run as Python.
// Their source is parsed, and of the language only what makes texts of texts is
// computed here: strings, lists, dicts and whole numbers, conditions and loops, and
// re.  There are no files, no network, no modules, and a limit of steps.  Anything
// else is refused with its line, as a function that is computed otherwise than
// Python would measure something else.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { setFlagsFromString } from "node:v8";
import { parser } from "@lezer/python";
import { contains, copyOf, DATASET, Dataset, datasetMethod, DICT, element, equal, format, frozen, items, keyOf, less, LIST,
	MATCH, Match, PythonError, RE, repr, sized, slice, sorted, str, STR, text, truthy, Tuple, typeOf, whole } from "./python_values.mjs";

const MOST_STEPS = 20_000_000;
const MOST_DEPTH = 200;

const COMPARISON = /^([<>=!]|in$|not in$|is)/;

const RETURN = Symbol("return"), BREAK = Symbol("break"), CONTINUE = Symbol("continue");

// An object that has methods or members by name, such as a module.
class Members {
	constructor(name, members) {
		Object.assign(this, { name, members });
	}
}

const plain = (f) => (args, named) => {
	if (Object.keys(named ?? {}).length)
		throw new PythonError(`the argument "${Object.keys(named)[0]}" is not supported`);
	return f(...args);
};

const BUILTINS = {
	len: plain((value) => Array.from(value instanceof Map ? value.keys() : items(value)).length),
	str: plain((value = "") => str(value)),
	repr: plain(repr),
	int: plain((value) => typeof value === "string" && /^\s*[+-]?\d+\s*$/.test(value) ? whole(Number(value)) : whole(value)),
	bool: plain(truthy),
	list: plain((value = []) => [...items(value)]),
	tuple: plain((value = []) => Tuple.from(items(value))),
	dict: (args, named) => new Map([...args.length ? args[0] instanceof Map ? args[0] : items(args[0]) : [], ...Object.entries(named ?? {})]),
	range: plain((...bounds) => {
		const [from, to, by] = bounds.length < 2 ? [0, whole(bounds[0]), 1] : [whole(bounds[0]), whole(bounds[1]), whole(bounds[2] ?? 1)];
		if (by === 0)
			throw new PythonError("range() has a step of 0");
		return Array.from(sized({ length: Math.max(0, Math.ceil((to - from) / by)) }), (_, i) => from + i * by);
	}),
	enumerate: (args, { start = 0 } = {}) => items(args[0]).map((one, i) => Tuple.of(i + whole(args[1] ?? start), one)),
	zip: plain((...lists) => {
		const all = lists.map(items);
		return Array.from({ length: Math.min(...all.map(({ length }) => length)) }, (_, i) => Tuple.from(all, (one) => one[i]));
	}),
	sorted: ([list], { key = null, reverse = false } = {}) => sorted([...items(list)], key ? (one) => key([one]) : undefined, truthy(reverse)),
	reversed: plain((list) => [...items(list)].reverse()),
	sum: plain((list) => items(list).reduce((sum, one) => whole(sum + whole(one)), 0)),
	min: plain((...all) => sorted([...all.length > 1 ? all : items(all[0])])[0] ?? null),
	max: plain((...all) => (all.length > 1 ? all : items(all[0])).reduce((most, one) => less(most, one) ? one : most)),
	any: plain((list) => items(list).some(truthy)),
	all: plain((list) => items(list).every(truthy)),
	map: plain((f, list) => items(list).map((one) => f([one]))),
	filter: plain((f, list) => items(list).filter((one) => truthy(f([one])))),
	chr: plain((code) => String.fromCodePoint(whole(code))),
	ord: plain((one) => Array.from(text(one)).length === 1 ? one.codePointAt(0) : whole(null)),
	abs: plain((n) => Math.abs(whole(n))),
};

const dataset = new Members("Dataset", { from_list: plain((docs) => new Dataset(copyOf(docs))) });
const MODULES = {
	re: new Members("re", Object.fromEntries(Object.entries(RE).map(([name, f]) => [name, plain(f)]))),
	functools: new Members("functools", { partial: ([f, ...first], fixed = {}) => (args, named) => f([...first, ...args], { ...fixed, ...named }) }),
	datasets: new Members("datasets", { Dataset: dataset }),
	string: new Members("string", { ascii_uppercase: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", ascii_lowercase: "abcdefghijklmnopqrstuvwxyz",
		digits: "0123456789", punctuation: "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" }),
	ast: new Members("ast", { literal_eval: plain((source) => literal(text(source))) }),
};

const childrenOf = (node) => {
	const found = [];

	for (let child = node.firstChild; child; child = child.nextSibling)
		if (child.name !== "Comment")
			found.push(child);
	return found;
};

const NO_LITERAL = /VariableName|Call|Member|Lambda|Comprehension|Format|Binary|Conditional|⚠/;

// A text that is a literal of Python: ast.literal_eval().
export function literal(source) {
	const file = new PythonFile("a literal", `(${source.trim()})`);

	if (source.trim() === "" || NO_LITERAL.test(file.tree.toString()))
		throw new PythonError(`${JSON.stringify(source.slice(0, 100))} is no literal of Python`);
	return file.expression();
}

// The value of an expression that needs no names.
export function evaluate(source) {
	return new PythonFile("an expression", `(${source})`).expression();
}

const files = new Map();

// The function of a file by its name, which takes an array of arguments.  "where"
// is what messages say of it.
export function pythonFunction(path, name) {
	if (files.size === 0)		// so that a regular expression ends that backtracks too often
		setFlagsFromString("--enable-experimental-regexp-engine-on-excessive-backtracks");
	if (!files.has(path))
		files.set(path, new PythonFile(basename(path), readFileSync(path, "utf8")));
	const file = files.get(path);

	return (...args) => {
		file.steps = 0;
		file.at = undefined;
		try {
			const found = file.global(name);
			if (typeof found !== "function")
				throw new PythonError(`${name} is no function`);
			return found(args, {});
		} catch (error) {
			if (!(error instanceof PythonError || error instanceof RangeError || error instanceof TypeError || /^regex /.test(error.message)))
				throw error;
			const line = file.at === undefined ? "" : `, line ${file.source.slice(0, file.at).split("\n").length}`;
			throw new Error(`!function ${name} (${file.name}${line}): ${error.message}; `
				+ "write the field as a template, or convert the documents and name them with --documents");
		}
	};
}

class PythonFile {
	constructor(name, source) {
		Object.assign(this, { name, source, tree: parser.parse(source).topNode, steps: 0, depth: 0, values: new Map() });
	}

	expression() {
		const [statement, ...more] = childrenOf(this.tree);

		if (more.length || statement?.name !== "ExpressionStatement")
			this.refuse(this.tree);
		return this.compute(statement.firstChild, new Map());
	}

	part(node) {
		return this.source.slice(node.from, node.to);
	}

	refuse(node, what = `"${this.part(node).split("\n")[0].slice(0, 80)}"`) {
		this.at = node.from;
		throw new PythonError(`${what} is not supported`);
	}

	// The value of a name of the file.  Only statements that bind it are computed, so
	// that it does not matter what else the file has; a name that is bound twice, or
	// that other statements use, may be another thing than it seems.
	global(name) {
		if (this.values.has(name))
			return this.values.get(name);
		this.bindings ??= this.findBindings();
		const found = this.bindings.get(name);
		if (found === undefined && Object.hasOwn(BUILTINS, name))
			return BUILTINS[name];
		if (found === undefined)
			throw new PythonError(`the name "${name}" is not supported`);
		if (found.length > 1)
			this.refuse(found[1], `"${name}", which is bound or changed twice,`);
		this.values.set(name, frozen(this.bound(found[0], name)));
		return this.values.get(name);
	}

	findBindings() {
		const all = new Map();
		const add = (name, node) => all.set(name, [...all.get(name) ?? [], node]);

		for (const node of childrenOf(this.tree)) {
			const [first, second, third] = childrenOf(node);
			if (node.name === "FunctionDefinition" && first.name === "def")
				add(this.part(second), node);
			else if (node.name === "AssignStatement" && first.name === "VariableName"
				&& (second.name === "AssignOp" || second.name === "TypeDef" && third?.name === "AssignOp"))
				add(this.part(first), node);
			else if (node.name === "ImportStatement")
				for (const [name] of this.imports(node))
					add(name, node);
			else if (node.name === "ClassDefinition" || node.name === "DecoratedStatement")
				add(this.part((node.name === "ClassDefinition" ? node : node.lastChild).getChild("VariableName") ?? node), node);
			else if (node.name !== "ExpressionStatement" || first.name !== "String")
				node.cursor().iterate((inner) => {
					if (inner.name === "VariableName")
						add(this.part(inner), node);
				});
		}
		return all;
	}

	// The names that an import binds, with what each is: "re", "functools.partial".
	imports(node) {
		const words = childrenOf(node).map((one) => this.part(one)).filter((one) => !/^[(),]$/.test(one));
		const at = words.indexOf("import"), from = words[0] === "from" ? `${words.slice(1, at).join("")}.` : "";
		const found = [];

		for (let i = at + 1; i < words.length; i++) {
			let path = words[i];
			for (; words[i + 1] === "."; i += 2)
				path += `.${words[i + 2]}`;
			const as = words[i + 1] === "as" ? words[i += 2] : path.split(".")[0];
			found.push([as, from + path]);
		}
		return found;
	}

	bound(node, name) {
		node.cursor().iterate(({ type, from }) => {
			if (type.isError)
				this.refuse({ from }, "what is no Python here");
		});
		if (node.name === "FunctionDefinition")
			return this.closure(node, new Map());
		if (node.name === "AssignStatement")
			return this.compute(node.lastChild, new Map());
		if (node.name !== "ImportStatement")
			return this.refuse(node, `"${name}", which another statement binds,`);
		const path = this.imports(node).find(([as]) => as === name)[1].split(".");
		let found = Object.hasOwn(MODULES, path[0]) ? MODULES[path[0]] : undefined;
		for (const part of path.slice(1))
			found = found instanceof Members && Object.hasOwn(found.members, part) ? found.members[part] : undefined;
		return found ?? this.refuse(node, `the module or name "${path.join(".")}"`);
	}

	// A function, or a lambda, with the names around it.
	closure(node, scope) {
		const children = childrenOf(node), body = children.at(-1);
		const list = childrenOf(node.getChild("ParamList") ?? node).filter(() => node.getChild("ParamList"));
		const parameters = [];

		for (let i = 0; i < list.length; i++) {
			if (list[i].name === "VariableName")
				parameters.push({ name: this.part(list[i]) });
			else if (list[i].name === "AssignOp")
				parameters.at(-1).otherwise = frozen(this.compute(list[++i], scope));
			else if (!["(", ")", ",", "TypeDef"].includes(list[i].name))
				this.refuse(list[i], "such a parameter");
		}
		if (children[0].name !== "def" && children[0].name !== "lambda")
			this.refuse(node);
		return (args, named = {}) => {
			const own = new Map();
			own.around = scope;
			if (args.length > parameters.length)
				throw new PythonError(`${args.length} arguments are too many`);
			parameters.forEach(({ name, otherwise }, i) => {
				const value = i < args.length ? args[i] : Object.hasOwn(named, name) ? named[name] : otherwise;
				if (value === undefined)
					throw new PythonError(`the argument "${name}" is missing`);
				own.set(name, value);
			});
			const unknown = Object.keys(named).find((name) => !parameters.some((one) => one.name === name));
			if (unknown)
				throw new PythonError(`there is no argument "${unknown}"`);
			if (++this.depth > MOST_DEPTH)
				throw new PythonError(`it calls itself more than ${MOST_DEPTH} times`);
			try {
				if (node.name === "LambdaExpression")
					return this.compute(body, own);
				const done = this.run(body, own);
				return done?.kind === RETURN ? done.value : null;
			} finally {
				this.depth--;
			}
		};
	}

	step(node) {
		if (++this.steps > MOST_STEPS)
			this.refuse(node, `a computation of more than ${MOST_STEPS} steps`);
	}

	// Runs the statements of a body; returns how it is left, if before its end.
	run(body, scope) {
		for (const node of childrenOf(body)) {
			if (node.name === ":")
				continue;
			const left = this.statement(node, scope);
			if (left)
				return left;
		}
		return undefined;
	}

	statement(node, scope) {
		this.step(node);
		this.at = node.from;
		const children = childrenOf(node);

		switch (node.name) {
			case "ReturnStatement":
				return { kind: RETURN, value: children.length === 1 ? null : this.several(children.slice(1), scope) };
			case "BreakStatement":
				return { kind: BREAK };
			case "ContinueStatement":
				return { kind: CONTINUE };
			case "PassStatement": case ";":
				return undefined;
			case "StatementGroup":
				return this.run(node, scope);
			case "ExpressionStatement":
				this.several(children, scope);
				return undefined;
			case "AssignStatement":
				return this.assign(node, children, scope);
			case "UpdateStatement":
				return this.update(node, children, scope);
			case "FunctionDefinition":
				return void scope.set(this.part(children[1]), this.closure(node, scope));
			case "IfStatement":
				return this.branch(children, scope);
			case "ForStatement": case "WhileStatement":
				return this.loop(node, children, scope);
			default:
				return this.refuse(node);
		}
	}

	// One expression, or several with commas, which are a tuple.
	several(nodes, scope) {
		if (nodes.length === 1)
			return this.compute(nodes[0], scope);
		return Tuple.from(this.list(nodes, scope));
	}

	list(nodes, scope) {
		const found = [];

		for (let i = 0; i < nodes.length; i++) {
			if (nodes[i].name === "*")
				found.push(...items(this.compute(nodes[++i], scope)));
			else if (nodes[i].name !== ",")
				found.push(this.compute(nodes[i], scope));
		}
		return sized(found);
	}

	assign(node, children, scope) {
		const ops = children.flatMap(({ name }, i) => name === "AssignOp" ? [i] : []);

		if (ops.length !== 1)
			return this.refuse(node);
		const target = children.slice(0, ops[0]).filter(({ name }) => name !== "TypeDef");
		this.bind(target, this.several(children.slice(ops[0] + 1), scope), scope);
		return undefined;
	}

	// Binds names, elements, or several of them, to a value.
	bind(nodes, value, scope) {
		const targets = nodes.filter(({ name }) => !["(", ")", "[", "]", ","].includes(name));

		if (nodes.length > 1) {
			const values = items(value);
			if (values.length !== targets.length)
				throw new PythonError(`${values.length} values do not fit ${targets.length} names`);
			return targets.forEach((one, i) => this.bind([one], values[i], scope));
		}
		const [one] = targets, inner = one && childrenOf(one);
		if (one?.name === "VariableName")
			return void scope.set(this.part(one), value);
		if (one?.name === "TupleExpression" || one?.name === "ArrayExpression")
			return this.bind(inner, value, scope);
		if (one?.name !== "MemberExpression" || inner.length !== 4 || inner[1].name !== "[")
			return this.refuse(one ?? nodes[0]);
		const owner = this.compute(inner[0], scope), key = this.compute(inner[2], scope);
		if (owner instanceof Map)
			sized(owner).set(keyOf(key), value);
		else if (Array.isArray(owner) && !(owner instanceof Tuple)) {
			element(owner, key);
			owner[key < 0 ? owner.length + key : key] = value;
		} else
			this.refuse(one);
		return undefined;
	}

	update(node, [target, op, ...value], scope) {
		const before = this.compute(target, scope), more = this.several(value, scope);

		if (this.part(op) === "+=" && Array.isArray(before) && !(before instanceof Tuple))
			return void LIST.extend(before, more);
		this.bind([target], this.calculate(node, this.part(op).slice(0, -1), before, more), scope);
		return undefined;
	}

	branch(children, scope) {
		for (let i = 0; i < children.length; i++) {
			const word = children[i].name;
			if (word === "else")
				return this.run(children[i + 1], scope);
			if (truthy(this.compute(children[i + 1], scope)))
				return this.run(children[i + 2], scope);
			i += 2;
		}
		return undefined;
	}

	loop(node, children, scope) {
		const body = children.findIndex(({ name }) => name === "Body");
		const middle = children.findIndex(({ name }) => name === "in");

		if (children.length > body + 1)
			return this.refuse(children[body + 1], '"else" of a loop');
		const round = () => {
			this.step(node);
			return this.run(children[body], scope);
		};
		if (node.name === "WhileStatement") {
			while (truthy(this.compute(children[1], scope))) {
				const left = round();
				if (left?.kind === BREAK)
					break;
				if (left?.kind === RETURN)
					return left;
			}
			return undefined;
		}
		for (const one of items(this.several(children.slice(middle + 1, body), scope))) {
			this.bind(children.slice(1, middle), one, scope);
			const left = round();
			if (left?.kind === BREAK)
				break;
			if (left?.kind === RETURN)
				return left;
		}
		return undefined;
	}

	compute(node, scope) {
		this.step(node);
		const children = childrenOf(node);

		switch (node.name) {
			case "String": case "ContinuedString": case "FormatString":
				return this.string(node, scope);
			case "Number":
				return /^(0|[1-9]\d*)$/.test(this.part(node)) ? whole(Number(this.part(node))) : this.refuse(node);
			case "Boolean":
				return this.part(node) === "True";
			case "None":
				return null;
			case "VariableName":
				return this.variable(node, scope);
			case "ParenthesizedExpression":
				return children.length === 3 ? this.compute(children[1], scope) : this.refuse(node);
			case "TupleExpression":
				return Tuple.from(this.list(children.slice(1, -1), scope));
			case "ArrayExpression":
				return this.list(children.slice(1, -1), scope);
			case "DictionaryExpression":
				return this.dictionary(children.slice(1, -1), scope);
			case "ArrayComprehensionExpression": case "ComprehensionExpression":
				return this.comprehension(children.slice(1, -1), scope, 1);
			case "DictionaryComprehensionExpression":
				return new Map(this.comprehension(children.slice(1, -1), scope, 3));
			case "ConditionalExpression":
				return this.compute(children[truthy(this.compute(children[2], scope)) ? 0 : 4], scope);
			case "UnaryExpression":
				return this.unary(node, children, scope);
			case "BinaryExpression":
				return this.binary(node, children, scope);
			case "LambdaExpression":
				return this.closure(node, scope);
			case "MemberExpression":
				return this.member(node, children, scope);
			case "CallExpression":
				return this.call(children, scope);
			default:
				return this.refuse(node);
		}
	}

	variable(node, scope) {
		const name = this.part(node);

		for (let one = scope; one; one = one.around)
			if (one.has(name))
				return one.get(name);
		this.at = node.from;
		return this.global(name);
	}

	// A string of one or more pieces, each with its prefix.
	string(node, scope) {
		if (node.name === "ContinuedString")
			return childrenOf(node).map((one) => this.string(one, scope)).join("");
		const [, prefix, mark] = /^([a-zA-Z]*)("""|'''|"|')/.exec(this.part(node));
		if (!/^[rRfFuU]*$/.test(prefix))
			this.refuse(node);
		const from = node.from + prefix.length + mark.length, to = node.to - mark.length;
		const raw = /r/i.test(prefix), holes = childrenOf(node).filter(({ name }) => name === "FormatReplacement");
		const isFormat = /f/i.test(prefix);
		const piece = (start, end) => {
			const source = this.source.slice(start, end);
			const plainly = raw ? source : this.unescape(node, source);
			return isFormat ? plainly.replace(/\{\{|\}\}/g, (one) => one[0]) : plainly;
		};
		let made = "", at = from;
		for (const hole of holes) {
			made += piece(at, hole.from) + this.hole(hole, scope);
			at = hole.to;
		}
		return sized(made + piece(at, to));
	}

	hole(node, scope) {
		const [, expression, ...more] = childrenOf(node), conversion = more[0]?.name === "FormatConversion" ? this.part(more.shift()) : "!s";

		if (more.length !== 1 || !["!s", "!r"].includes(conversion))
			this.refuse(node);
		const value = this.compute(expression, scope);
		return conversion === "!r" ? repr(value) : str(value);
	}

	unescape(node, source) {
		return source.replace(/\\(?:\r?\n|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g,
			(all, x, u, long, octal, other) => {
				if (x ?? u ?? long)
					return String.fromCodePoint(parseInt(x ?? u ?? long, 16));
				if (octal)
					return String.fromCodePoint(parseInt(octal, 8));
				if (other === undefined)
					return "";
				const known = { n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"', a: "\x07", b: "\b", f: "\f", v: "\v" };
				return other === "N" ? this.refuse(node) : known[other] ?? all;
			});
	}

	dictionary(children, scope) {
		const made = new Map();

		for (let i = 0; i < children.length; i++) {
			if (children[i].name === "**")
				DICT.update(made, this.compute(children[++i], scope));
			else if (children[i].name !== ",") {
				made.set(keyOf(this.compute(children[i], scope)), this.compute(children[i + 2], scope));
				i += 2;
			}
		}
		return made;
	}

	// What "for" and "if" make of one node, or of the pair of a dict.
	comprehension(children, scope, n) {
		const made = [];
		const go = (at, own) => {
			this.step(children[0]);
			if (at >= children.length) {
				const key = this.compute(children[0], own);
				made.push(n === 1 ? key : [keyOf(key), this.compute(children[2], own)]);
				sized(made);
			} else if (children[at].name === "if") {
				if (truthy(this.compute(children[at + 1], own)))
					go(at + 2, own);
			} else if (children[at].name === "for") {
				const middle = children.findIndex(({ name }, i) => i > at && name === "in");
				for (const one of items(this.compute(children[middle + 1], own))) {
					const inner = new Map();
					inner.around = own;
					this.bind(children.slice(at + 1, middle), one, inner);
					go(middle + 2, inner);
				}
			} else
				this.refuse(children[at]);
		};

		go(n, scope);
		return made;
	}

	unary(node, [op, operand], scope) {
		if (op.name === "not")
			return this.logical(node, scope);
		const value = whole(this.compute(operand, scope));
		return this.part(op) === "-" ? -value || 0 : this.part(op) === "+" ? value : this.refuse(node);
	}

	operator(node) {
		return childrenOf(node).slice(1, -1).map((one) => this.part(one)).join(" ");
	}

	binary(node, children, scope) {
		const op = this.operator(node), [a, b] = [children[0], children.at(-1)];

		if (op === "and" || op === "or")
			return this.logical(node, scope);
		if (COMPARISON.test(op) && a.name === "BinaryExpression" && COMPARISON.test(this.operator(a)))
			return this.refuse(node, "a comparison of three values");
		return this.calculate(node, op, this.compute(a, scope), this.compute(b, scope));
	}

	// "and", "or" and "not", whose precedence the parser does not know: for it,
	// "not a or b" is "not (a or b)".  So its nodes are read as a flat list.
	logical(node, scope) {
		const words = this.flat(node);
		const negated = () => {
			if (words[0] !== "not")
				return this.compute(words.shift(), scope);
			words.shift();
			return !truthy(negated());
		};
		const joined = (word, next, stops) => {
			let value = next();
			while (words[0] === word) {
				words.shift();
				if (truthy(value) === stops)
					skip(word);
				else
					value = next();
			}
			return value;
		};
		// What need not be computed any more: an operand of "and", or of "or" with all
		// that "and" joins to it.
		const skip = (word) => {
			while (words.length && words[0] !== "or" && (word === "or" || words[0] !== "and"))
				words.shift();
		};
		return joined("or", () => joined("and", negated, false), true);
	}

	flat(node) {
		const children = childrenOf(node);

		if (node.name === "UnaryExpression" && children[0].name === "not")
			return ["not", ...this.flat(children[1])];
		if (node.name === "BinaryExpression" && /^(and|or)$/.test(this.operator(node)))
			return [...this.flat(children[0]), this.operator(node), ...this.flat(children.at(-1))];
		return [node];
	}

	calculate(node, op, a, b) {
		switch (op) {
			case "==": return equal(a, b);
			case "!=": return !equal(a, b);
			case "<": return less(a, b);
			case ">": return less(b, a);
			case "<=": return !less(b, a);
			case ">=": return !less(a, b);
			case "in": return contains(b, a);
			case "not in": return !contains(b, a);
			case "is": return b === null ? a === null : this.refuse(node);
			case "is not": return b === null ? a !== null : this.refuse(node);
			case "+":
				if (typeof a === "string" && typeof b === "string")
					return sized(a + b);
				if (Array.isArray(a) && Array.isArray(b) && a instanceof Tuple === b instanceof Tuple)
					return sized(a instanceof Tuple ? Tuple.from([...a, ...b]) : [...a, ...b]);
				return whole(whole(a) + whole(b));
			case "-": return whole(whole(a) - whole(b));
			case "*":
				if (typeof a === "string")
					return sized({ length: whole(b) * a.length }) && a.repeat(Math.max(0, whole(b)));
				return whole(whole(a) * whole(b));
			case "//": return whole(b) === 0 ? this.refuse(node) : whole(Math.floor(whole(a) / whole(b)));
			case "%":
				return typeof a === "string" || whole(b) === 0 ? this.refuse(node) : (whole(a) % b + b) % b;
			case "|":
				return a instanceof Map && b instanceof Map ? new Map([...a, ...b]) : this.refuse(node);
			default:
				return this.refuse(node);
		}
	}

	// owner.name, owner[index], owner[from:to]
	member(node, [owner, mark, ...inside], scope) {
		const value = this.compute(owner, scope);

		if (mark.name === ".")
			return this.attribute(node, value, this.part(inside[0]));
		const parts = inside.slice(0, -1), colon = parts.findIndex(({ name }) => name === ":");
		if (colon < 0)
			return parts.length === 1 ? element(value, this.compute(parts[0], scope)) : this.refuse(node);
		const [from, to, ...more] = [parts.slice(0, colon), parts.slice(colon + 1)];
		if (more.length || from.length > 1 || to.length > 1)
			return this.refuse(node);
		return slice(value, ...[from, to].map(([one]) => one ? this.compute(one, scope) : null));
	}

	attribute(node, value, name) {
		const methods = typeof value === "string" ? STR : value instanceof Map ? DICT : value instanceof Dataset ? DATASET
			: value instanceof Match ? MATCH : Array.isArray(value) && !(value instanceof Tuple) ? LIST : {};

		if (value instanceof Members && Object.hasOwn(value.members, name))
			return value.members[name];
		if (value instanceof Dataset && name === "column_names")
			return value.column_names;
		if (typeof value === "string" && name === "format")
			return (args, named = {}) => format(value, args, named);
		if (!Object.hasOwn(methods, name))
			return this.refuse(node, `"${name}" of a ${value instanceof Members ? value.name : typeOf(value)}`);
		if (value instanceof Dataset)
			return datasetMethod(value, name);
		return plain((...args) => methods[name](value, ...args) ?? null);
	}

	call([callee, list], scope) {
		const f = this.compute(callee, scope), args = [], named = {}, nodes = childrenOf(list).slice(1, -1);

		if (typeof f !== "function")
			return this.refuse(callee);
		for (let i = 0; i < nodes.length; i++) {
			if (nodes[i].name === "for")		// a generator without parentheses
				return f([this.comprehension(nodes, scope, 1)], {});
			if (nodes[i].name === "*")
				args.push(...items(this.compute(nodes[++i], scope)));
			else if (nodes[i].name === "**")
				for (const [key, value] of this.compute(nodes[++i], scope))
					named[key] = value;
			else if (nodes[i + 1]?.name === "AssignOp") {
				named[this.part(nodes[i])] = this.compute(nodes[i + 2], scope);
				i += 2;
			} else if (nodes[i + 1]?.name === "for")
				return f([this.comprehension(nodes, scope, 1)], {});
			else if (nodes[i].name !== ",")
				args.push(this.compute(nodes[i], scope));
		}
		this.at = callee.from;
		return f(args, named);
	}
}
