// python.test.mjs: functions beside tasks of lm-eval return what Python returns, or
// are refused
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { evaluate, literal, pythonFunction } from "../../cli/lib/python.mjs";
import { Dataset, fromPython, toPython } from "../../cli/lib/python_values.mjs";

const FILE = fileURLToPath(new URL("../data/lm_eval/utils.py", import.meta.url));
const DOCS = [
	{ first: " She stopped, then. ", second: "oNE Old tom@example door", label: "[remark] What", options: ["A cat ", " Dogs", "", "𝒳 é [x]  y"], gold: "1",
		kind: "cause", problems: "[{'q': 'It is _.', 'o': ['x', 'y'], 'a': 'B', 'n': 0}, {\"q\": 'why', 'n': 5}]", table: { a: 1, b: "two", c: null } },
	{ first: "e𝒳e Ω", second: "ÀÉ x", label: "", options: ["z", "zz"], gold: 0, kind: "effect", problems: "[{'n': -2}]", table: { y: true, x: [1, ["2"]] } },
	{ first: "fed  the.", second: "no", label: "l", options: ["only"], gold: "0", kind: "effect", problems: "({'n': 1},)", table: {} },
];
const OF_SETS = ["process_docs", "keep_effects", "renamed", "selected"];
const OF_DOCS = ["lettered", "doc_to_text", "before_blank", "after_blank", "connected", "chosen", "evaluated", "pairs", "matched",
	"described", "words", "joined"];

// CPython, with as much of the library datasets as the file uses.
const PYTHON = `
import importlib.util, json, sys, types
class Dataset(list):
    def map(self, f, remove_columns=()): return Dataset({**{k: v for k, v in d.items() if k not in remove_columns}, **f(dict(d))} for d in self)
    def filter(self, f): return Dataset(d for d in self if f(dict(d)))
    def select(self, at): return Dataset(self[i] for i in at)
sys.modules["datasets"] = types.SimpleNamespace(Dataset=Dataset)
sys.modules["numpy"] = types.SimpleNamespace()
spec = importlib.util.spec_from_file_location("utils", sys.argv[1])
utils = importlib.util.module_from_spec(spec)
spec.loader.exec_module(utils)
docs, of_sets, of_docs = json.loads(sys.argv[2])
print(json.dumps([[getattr(utils, f)(Dataset(docs)) for f in of_sets], [[getattr(utils, f)(d) for d in docs] for f in of_docs], utils.shots()]))
`;

const call = (name, ...args) => {
	const made = pythonFunction(FILE, name)(...args);
	return fromPython(made instanceof Dataset ? made.docs : made);
};

test("functions in the manner of public ones return what CPython returns", () => {
	const [sets, docs, shots] = JSON.parse(execFileSync("/usr/bin/python3", ["-c", PYTHON, FILE,
		JSON.stringify([DOCS, OF_SETS, OF_DOCS])], { encoding: "utf8" }));
	assert.deepEqual(call("shots"), shots);
	OF_SETS.forEach((name, i) => assert.deepEqual(call(name, new Dataset(DOCS.map(toPython))), sets[i], name));
	OF_DOCS.forEach((name, i) => DOCS.forEach((doc, k) => assert.deepEqual(call(name, toPython(doc)), docs[i][k], `${name} of document ${k}`)));
});

test("and, or and not are joined as Python joins them", () => {
	const values = ["0", "1", "''", "'a'"], found = [];
	for (const x of values)
		for (const y of values)
			for (const a of ["and", "or"])
				for (const b of ["and", "or"])
					found.push(`not ${x} ${a} ${y} ${b} ''`, `${x} ${a} not ${y} ${b} 2`, `${x} ${a} ${y} ${b} not 0`, `not ${x} ${a} not ${y} ${b} 'b'`,
						`not not ${x} ${a} ${y} == 0 ${b} ${y}`, `${x} ${a} (not ${y} ${b} 3) or 4`);
	const python = execFileSync("/usr/bin/python3", ["-c", "import json, sys; print(json.dumps([eval(e) for e in json.load(sys.stdin)]))"],
		{ input: JSON.stringify(found), encoding: "utf8" });
	assert.deepEqual(found.map(evaluate), JSON.parse(python));
});

test("what is computed otherwise, reaches beyond or does not end is refused with its line", () => {
	const line = (name) => new RegExp(`^Error: !function ${name} \\(utils.py, line \\d+\\): .*write the field as a template`);
	for (const [name, why] of [["classes", /"numpy" is not supported/], ["opened", /the name "open" is not supported/],
		["imported", /"__import__" is not supported/], ["dunder", /"__class__" of a str is not supported/], ["compared", /a comparison of three values/],
		["floating", /"1 \/ 3" is not supported/], ["padded", /is not supported/], ["endless", /more than 20000000 steps/],
		["deep", /calls itself more than 200 times/], ["large", /more than 4000000 values or characters/],
		["changing", /not extensible|not supported/], ["bound_twice", /"TWICE", which is bound or changed twice/], ["caught", /"try:" is not supported/],
		["listed", /is not supported|do not fit/], ["missing", /there is no key 'absent'/], ["stepped", /"doc\["first"\]\[::2\]" is not supported/]])
		assert.throws(() => pythonFunction(FILE, name)(toPython(DOCS[0])), (error) => {
			assert.match(String(error), line(name));
			assert.match(error.message, why, name);
			return true;
		});
	assert.throws(() => call("decorated", toPython(DOCS[0])), /"decorated", which another statement binds, is not supported/);
	assert.throws(() => call("absent", toPython(DOCS[0])), /the name "absent" is not supported/);
	assert.throws(() => call("constructor", toPython(DOCS[0])), /the name "constructor" is not supported/);
});

test("a literal is read, and nothing else", () => {
	assert.deepEqual(fromPython(literal("['a', \"b\\n\", (1, None), {'x': -2}]")), ["a", "b\n", [1, null], { x: -2 }]);
	for (const source of ["open('x')", "a", "[x for x in 'ab']", "1; 2", "(1", "f'{1}'", "[1](2)", "1) + (2", ""])
		assert.throws(() => literal(source), /is no literal of Python|not supported/, source);
});
