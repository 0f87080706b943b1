// formats.test.mjs: cases from each format, and what is refused by name
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fromLmEval } from "../../cli/lib/lm_eval.mjs";
import { PythonRandom } from "../../cli/lib/python_random.mjs";
import { fromOpenAIEvals } from "../../cli/lib/openai_evals.mjs";
import { fromPromptfoo } from "../../cli/lib/promptfoo.mjs";
import { runChecks } from "../../cli/lib/checks.mjs";
import { casePrompt, judgeMessages } from "../../cli/lib/prompt.mjs";
import { lmEvalResults } from "../../cli/lib/results.mjs";

const folder = mkdtempSync(join(tmpdir(), "formats-"));
after(() => rmSync(folder, { recursive: true }));

function file(name, content) {
	const path = join(folder, name);
	writeFileSync(path, content);
	return path;
}

const lines = (...documents) => documents.map((one) => `${JSON.stringify(one)}\n`).join("");
const user = (content) => ({ messages: [{ role: "user", content }] });
const passes = ({ checks, threshold }, output) => runChecks(checks, output, threshold).pass;

test("promptfoo: prompts, variables and defaults make cases", () => {
	const cases = fromPromptfoo(file("a.yaml", `
prompts: ["Translate {{text}} to {{to}}", '[{"role": "system", "content": "Be {{to}}"}, {"role": "user", "content": "{{text}}"}]']
defaultTest: {vars: {to: French}, metadata: {task: translation}, assert: [{type: not-contains, value: sorry}]}
tests:
  - {vars: {text: [cat, '"dog"']}, threshold: 0.5, assert: [{type: contains, value: 'le {{text}}', weight: 2}]}
  - {vars: {text: owl}, metadata: {task: birds, tags: [rare]}, assert: [{type: llm-rubric, value: 'Is it {{to}}?'}]}
`));
	assert.deepEqual(cases.map(({ name, task }) => [name, task]), [["1", "translation"], ["1/2", "translation"],
		["1.2", "translation"], ["1.2/2", "translation"], ["2", "birds"], ["2/2", "birds"]]);
	assert.deepEqual(cases[2].input, user('Translate "dog" to French'));
	assert.deepEqual(cases[3].input.messages, [{ role: "system", content: "Be French" }, { role: "user", content: '"dog"' }]);
	assert.deepEqual(cases[0].checks, [{ type: "not-contains", value: "sorry" }, { type: "contains", value: "le cat", weight: 2 }]);
	assert.equal(cases[0].threshold, 0.5);
	assert.deepEqual([cases[4].rubric, cases[4].tags], ["Is it French?", ["rare"]]);
});

test("lm-eval: a file includes others, and a group has tasks of files and of other groups", () => {
	const dir = mkdtempSync(join(folder, "group-"));
	const put = (name, content) => writeFileSync(join(dir, name), content);
	put("docs.jsonl", lines({ q: "1+1", a: "2" }, { q: "2+2", a: "4" }));
	put("_base.yaml", "output_type: generate_until\ndataset_path: json\ndataset_kwargs: {data_files: docs.jsonl}\ndoc_to_text: '{{q}}?'\ndoc_to_target: a\n");
	put("_loud.yaml", "include: _base.yaml\ndoc_to_text: '{{q}}!'\ndescription: 'Sum. '\n");
	put("plain.yaml", "include: _base.yaml\ntask: plain\n");
	put("loud.yaml", "include: [_loud.yaml, _base.yaml]\ntask: loud\n");
	put("inner.yml", "group: inner\ntask: [loud]\n");
	put("all.yaml", "group: all\ntask:\n- inner\n- {task: plain, doc_to_text: 'Say {{q}}'}\n- {group: nested, task: [loud]}\naggregate_metric_list: [{metric: exact_match}]\n");
	const asked = (name) => fromLmEval(join(dir, name)).map(({ name, task, input }) => [name, task, input.messages[0].content]);
	assert.deepEqual(asked("loud.yaml")[0], ["1", "loud", "Sum. 1+1!"], "the first of several files is the stronger");
	assert.deepEqual(asked("all.yaml"), [["loud/1", "loud", "Sum. 1+1!"], ["loud/2", "loud", "Sum. 2+2!"], ["plain/1", "plain", "Say 1+1"], ["plain/2", "plain", "Say 2+2"]]);
	for (const [name, content, message] of [["self.yaml", "group: self\ntask: [self]\n", /"self" has itself as a part/],
		["forms.yaml", "group: forms\ntask: [plain, {task: plain, doc_to_text: q}]\n", /"plain" is in group "forms" twice/],
		["none.yaml", "group: none\ntask: [constructor]\n", /there is no task "constructor"/],
		["ring.yaml", "include: ring.yaml\n", /include each other/],
		["code.yaml", "include: _base.yaml\ntask: code\ndoc_to_target: !function utils.target\n", /!function "utils.target": there is no file utils.py beside the YAML/]]) {
		put(name, content);
		assert.throws(() => fromLmEval(join(dir, name)), message);
		rmSync(join(dir, name));
	}
	put("twin.yaml", "include: _base.yaml\ntask: plain\n");
	assert.throws(() => asked("all.yaml"), /"plain" is defined by plain.yaml and twin.yaml/);
});

test("promptfoo: JSON Lines are tests, whose variables are the input", () => {
	const [one] = fromPromptfoo(file("a.jsonl", lines({ vars: { q: "2+2" }, assert: [{ type: "equals", value: "4" }] })));
	assert.deepEqual(one.input, { q: "2+2" });
	assert.equal(passes(one, "4"), true);
});

test("promptfoo: what has no part here is refused by name", () => {
	for (const [content, message] of [
		["tests: [{assert: [{type: python, value: 'True'}]}]", /"python" is not supported/],
		["tests: [{assert: [{type: 'similar:dot', value: x}]}]", /"similar:dot" is not supported/],
		["tests: [{vars: {x: 'file://x.txt'}, assert: [{type: equals, value: x}]}]", /no file "[^"]*x.txt"/],
		["tests: [{vars: {x: 'file:///etc/passwd'}, assert: [{type: equals, value: x}]}]", /is outside .*--root/],
		["tests: [{assert: [{type: is-json, value: 'file://../../etc/hostname'}]}]", /is outside|no file/],
		["tests: 'file://tests.py'", /tests\.py" is not supported: no such file is run or read/],
		["tests: 'file://tests.py:make'", /tests\.py:make" is not supported: no such file is run or read/],
		["prompts: ['langfuse://p']\ntests: []", /is not supported/],
		["redteam: {}\ntests: []", /"redteam" is not supported/],
		["tests: [{providerOutput: x}]", /"providerOutput" is not supported/],
		["tests: [{options: {storeOutputAs: x}}]", /"storeOutputAs" is not supported/],
		["a: {$ref: '#/b'}\nb: {$ref: '#/a'}\ntests: []", /contains itself/],
		["a0: &a0 [x, x]\n" + Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]\n`).join("") + "tests: []",
			/more than 5000000 values/],
		["tests: [{assert: [{type: assert-set, threshold: 0.5, assert: [{type: llm-rubric, value: a}]}]}]", /threshold and a judge/],
		["prompts: [a]", /no list of tests/],
	])
		assert.throws(() => fromPromptfoo(file("b.yaml", content)), message);
});

const TASK = `
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
description: "Add.\\n"
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n\\n", "Q:"], do_sample: false}
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: '#### (\\-?[0-9.,]+)'}, {function: take_first}]}
  - {name: flexible, filter: [{function: regex, group_select: -1, regex_pattern: '(-?[$0-9.,]{2,})|(-?[0-9]+)'}, {function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true, regexes_to_ignore: [',', '(?s).*#### ', '\\.$']}]
`;

test("lm-eval: a task's documents, filters and exact_match", () => {
	file("sums.jsonl", lines({ question: "1+1?", answer: "2" }, { question: "999+1?", answer: "#### 1,000" }));
	const path = file("sums.yaml", TASK);
	const [first, second] = fromLmEval(path, { filter: "strict" });
	assert.deepEqual(first.input, user("Add.\nQ: 1+1?\nA:"));
	assert.deepEqual([first.task, first.expected, first.source], ["sums", "2", "sums.jsonl: line 1"]);
	assert.equal(passes(first, "well, #### 2"), true);
	assert.equal(passes(first, "2"), false, "nothing that the filter finds");
	assert.equal(passes(first, "#### 2\n\nQ: more #### 3"), true, "the text after a stop does not count");
	assert.equal(passes(second, "#### 1000."), true, "both sides are normalised");
	const [flexible] = fromLmEval(path, { filter: "flexible" });
	assert.equal(passes(flexible, "3 then 2"), true, "the last match");
	assert.equal(passes(flexible, "2 then 3"), false);
});

test("lm-eval: solved examples are those that Python's generator chooses with lm-eval's seed", () => {
	const dir = mkdtempSync(join(folder, "shots-")), put = (name, content) => writeFileSync(join(dir, name), content);
	const numbers = (n, plus) => lines(...Array.from({ length: n }, (_, i) => ({ q: `${i}+${plus}`, a: `${i + plus}` })));
	const task = (more) => put("t.yaml", `task: t\ndataset_path: anything\noutput_type: generate_until\ndoc_to_text: "Q: {{q}}\\nA:"\ndoc_to_target: a\n${more}`);
	const asked = (more, options) => {
		task(more);
		return fromLmEval(join(dir, "t.yaml"), { documents: dir, ...options }).map(({ input }) => input.messages[0].content);
	};
	const shots = (text) => text.split("\n\n").slice(0, -1).map((one) => Number(/Q: (\d+)\+/.exec(one)[1]));
	put("train.jsonl", numbers(10, 1));
	put("test.jsonl", numbers(3, 2));
	// random.Random(1234): [r.sample(range(10), 2) for _ in range(3)] in CPython 3.11
	assert.equal(asked("test_split: test\nfewshot_split: train\nnum_fewshot: 2\n")[0], "Q: 7+1\nA: 8\n\nQ: 1+1\nA: 2\n\nQ: 0+2\nA:");
	assert.deepEqual(asked("test_split: test\nfewshot_split: train\nnum_fewshot: 2\n").map(shots), [[7, 1], [0, 1], [9, 0]]);
	// [r.sample(range(3), 2) for _ in range(3)], of which the document itself is left out, and one is left
	assert.deepEqual(asked("test_split: test\nfewshot_split: test\nnum_fewshot: 1\n").map(shots), [[1], [0], [0]]);
	assert.deepEqual(asked("test_split: test\ntraining_split: train\nfewshot_config: {sampler: first_n}\n", { "num-fewshot": "3" }).map(shots),
		[[0, 1, 2], [0, 1, 2], [0, 1, 2]], "without a split of their own they are of the training split");
	assert.deepEqual(asked("test_split: test\nfewshot_config: {sampler: first_n, split: test}\nnum_fewshot: 2\n").map(shots),
		[[1, 2], [0, 2], [0, 1]], "no question is its own example");
	assert.equal(asked("test_split: test\nnum_fewshot: 1\ndescription: 'Add. '\nfewshot_config: {sampler: first_n, samples: [{q: one, a: two}], doc_to_text: 'Sum {{q}}', target_delimiter: ' is ', fewshot_delimiter: ' - '}\n")[0],
		"Add. Sum one is two - Q: 0+2\nA:", "samples in the file, with forms of their own");
	assert.deepEqual(asked("test_split: test\nnum_fewshot: 2\nfewshot_config: {sampler: first_n, split: train, fewshot_indices: [4, 2, 0]}\n").map(shots)[0], [4, 2]);
	mkdirSync(join(dir, "hard"));
	writeFileSync(join(dir, "hard", "test.jsonl"), numbers(1, 7));
	assert.equal(asked("test_split: test\ndataset_name: hard\n")[0], "Q: 0+7\nA:", "a dataset's configuration has a folder");
	task("test_split: test\nfewshot_split: train\nnum_fewshot: 2\n");
	const [one] = fromLmEval(join(dir, "t.yaml"), { documents: dir });
	assert.equal(passes(one, " 2\n\nQ: more"), false, "no white space is cut off");
	assert.equal(passes(one, "2\n\nQ: 5+5\nA: 10"), true, "a model that goes on with another question is cut off");
	assert.throws(() => fromLmEval(join(dir, "t.yaml"), { documents: join(dir, "test.jsonl") }), /name a folder with a file for each split/);
	assert.throws(() => asked("test_split: valid\n"), /split "valid" has no file/);
	assert.throws(() => asked("test_split: test\nnum_fewshot: 1\nfewshot_config: {split: train, fewshot_indices: [10]}\n"), /no document 10 among 10/);
	assert.throws(() => asked("test_split: test\nnum_fewshot: 11\nfewshot_split: train\n"), /11 of 10 documents/);
	assert.throws(() => asked("test_split: test\nnum_fewshot: 11\nfewshot_config: {split: train, sampler: first_n}\n"), /fewer than 11/);
});

test("lm-eval: functions beside the YAML make documents, questions, answers, choices and examples", () => {
	const dir = mkdtempSync(join(folder, "functions-")), put = (name, content) => writeFileSync(join(dir, name), content);
	put("docs.jsonl", lines({ n: 1, kind: "odd" }, { n: 2, kind: "even" }, { n: 3, kind: "odd" }));
	put("utils.py", `
def odd(dataset):
    return dataset.filter(lambda doc: doc["kind"] == "odd").map(lambda doc: {"twice": doc["n"] * 2})

def text(doc):
    return f"Twice {doc['n']}:"

def target(doc):
    return 0 if doc["n"] == 1 else 1

def choices(doc):
    return [str(doc["twice"]), "six"]

def shots():
    return [{"n": n, "twice": n + n} for n in range(1, 3)]
`);
	const task = (more) => {
		put("t.yaml", `task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\noutput_type: generate_until\nprocess_docs: !function utils.odd\ndoc_to_text: !function utils.text\n${more}`);
		return fromLmEval(join(dir, "t.yaml")).map(({ name, source, input, expected }) => [name, source, input.messages[0].content, expected]);
	};
	assert.deepEqual(task("doc_to_target: !function utils.target\ndoc_to_choice: !function utils.choices\n"),
		[["1", "docs.jsonl: line 1", "Twice 1:", "2"], ["3", "docs.jsonl: line 3", "Twice 3:", "six"]]);
	assert.deepEqual(task("doc_to_target: twice\nnum_fewshot: 2\nfewshot_config: {sampler: first_n, samples: !function utils.shots}\n")[1],
		["3", "docs.jsonl: line 3", "Twice 1: 2\n\nTwice 2: 4\n\nTwice 3:", "6"]);
	assert.deepEqual(task("doc_to_target: '{{twice - 2 * n}}'\ndoc_to_choice: \"{{['no', 'not so']}}\"\n").map((one) => one[3]), ["no", "no"],
		"a template's number is a choice, and a template's list are the choices");
	assert.throws(() => task("doc_to_target: !function utils.odd\n"), /!function odd \(utils.py, line 3\): "filter" of a dict is not supported; write/);
	assert.throws(() => task("doc_to_target: !function utils.constructor\n"), /the name "constructor" is not supported/);
});

test("lm-eval: multiple_choice and loglikelihood ask how likely texts are", () => {
	const dir = mkdtempSync(join(folder, "choices-")), put = (name, content) => writeFileSync(join(dir, name), content);
	put("d.jsonl", lines({ q: "Sky?", c: ["blue", "red"], a: 0, s: "The _ runs", w: "1" }, { q: "Sea?", c: ["wet", "dry"], a: 1, s: "A _ is", w: "2" }));
	put("utils.py", 'def choices(doc):\n    i = doc["s"].index("_")\n    return [doc["s"][:i] + c for c in doc["c"]]\n\n'
		+ 'def number(doc):\n    return {"1": 0, "2": 1}[doc["w"]]\n\ndef rest(doc):\n    return doc["s"][doc["s"].index("_") + 1:].strip()\n');
	const task = (more, options) => {
		put("t.yaml", `task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n${more}`);
		return fromLmEval(join(dir, "t.yaml"), options);
	};
	const choice = "output_type: multiple_choice\ndoc_to_text: \"Q: {{q}}\\nA:\"\ndoc_to_choice: c\ndoc_to_target: a\n";
	const [, second] = task(`${choice}metric_list: [{metric: acc, aggregation: mean}, {metric: acc_norm}, {metric: brier_score}]\n`, { metric: "acc_norm" });
	assert.deepEqual(second.input.requests, [{ context: "Q: Sea?\nA:", continuation: " wet" }, { context: "Q: Sea?\nA:", continuation: " dry" }]);
	assert.deepEqual([second.expected, second.checks], ["dry", [{ type: "multiple_choice", metric: "acc_norm", choices: ["wet", "dry"], value: 1 },
		{ type: "multiple_choice", metric: "acc", choices: ["wet", "dry"], value: 1, weight: 0 }]]);
	assert.equal(task(`${choice}metric_list: [{metric: acc}]\nnum_fewshot: 1\nfewshot_config: {sampler: first_n, split: test}\n`)[1].input.requests[0].context,
		"Q: Sky?\nA: blue\n\nQ: Sea?\nA:", "an example has its right choice");
	assert.deepEqual(task("output_type: multiple_choice\ndoc_to_text: !function utils.number\ndoc_to_choice: !function utils.choices\ndoc_to_target: !function utils.rest\nmetric_list: [{metric: acc}]\n")
		.map(({ input, checks }) => [input.requests.map(({ context, continuation }) => context + continuation), checks[0].value]),
	[[["The blue runs", "The red runs"], 0], [["A wet is", "A dry is"], 1]], "what is asked differs, and what follows is scored");
	const values = (target) => task(`${choice.replace("doc_to_target: a", `doc_to_target: ${target}`)}metric_list: [{metric: acc}]\n`).map(({ checks }) => checks[0].value);
	assert.deepEqual([values("w"), values("'{{w}}'"), values("'{{c[1]}}'"), values("'{{[0, 1]}}'"), values("!function utils.number")],
		[[-1, -1], [1, 2], [1, 1], [[0, 1], [0, 1]], [0, 1]], "a field's text is a choice, a template's digits are a number");
	const [ll] = task("output_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: '{{ \" \" + c[0] }}'\nmetric_list: [{metric: perplexity, aggregation: perplexity}, {metric: acc}]\n", { metric: "acc" });
	assert.deepEqual([ll.input, ll.checks], [{ requests: [{ context: "Sky?", continuation: " blue" }] }, [{ type: "loglikelihood", metric: "acc" }, { type: "loglikelihood", metric: "perplexity", weight: 0 }]]);
	const texts = "output_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: '{{ c[0] }}'\n";
	assert.deepEqual([task(texts), task(texts, { metric: "perplexity" })].map(([{ checks }]) => checks.map(({ metric }) => metric)), [["acc", "perplexity"], ["perplexity", "acc"]]);
	assert.deepEqual([task(`${choice}metric_list: [{metric: mcc}]\n`), task(`${choice}metric_list: [{metric: f1, aggregation: f1}, {metric: acc}]\n`, { metric: "f1" })]
		.map(([{ checks }]) => checks.map(({ metric, value, weight }) => [metric, value, weight])), [[["mcc", 0, undefined]], [["f1", 0, undefined], ["acc", 0, 0]]]);
	assert.throws(() => task(`${choice}metric_list: [{metric: f1, aggregation: mean}]\n`), /aggregation of f1 "mean" is not supported; what is: f1/);
	assert.throws(() => task(`${choice}metric_list: [{metric: acc, aggregation: perplexity}]\n`), /aggregation of acc "perplexity" is not supported; what is: mean/);
	assert.throws(() => task(`${choice.replace("doc_to_target: a", "doc_to_target: '{{[0, 1]}}'")}metric_list: [{metric: mcc}]\n`), /metric mcc needs one right choice, and there are 2/);
	assert.throws(() => task(`${choice.replace("doc_to_choice: c", "doc_to_choice: [a, b, c]")}metric_list: [{metric: f1}]\n`), /metric f1 needs two choices, and there are 3/);
	assert.throws(() => task(choice), /choose one with --metric: acc, acc_norm/);
	assert.throws(() => task(`${choice}metric_list: [{metric: brier_score}]\n`), /metric "brier_score" is not supported; what is: acc, acc_norm, acc_bytes, exact_match, mcc, f1/);
	assert.throws(() => task("output_type: multiple_choice\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: acc}]\n"), /needs doc_to_choice/);
});

test("lm-eval's metrics of likelihoods, computed by hand", () => {
	const output = (...all) => JSON.stringify(all.map(([logprob, greedy = false]) => ({ logprob, tokens: 1, greedy })));
	const right = (metric, choices, value, said) => {
		const { results: [one] } = runChecks([{ type: "multiple_choice", metric, choices, value }], said);
		return one.error ?? one.pass;
	};
	// "a" -2.0, "bbbb" -2.4: acc 0; by character -2.0 and -0.6: acc_norm 1
	const two = output([-2], [-2.4, true]);
	assert.deepEqual([right("acc", ["a", "bbbb"], 0, two), right("acc_norm", ["a", "bbbb"], 0, two), right("acc_norm", ["a", "bbbb"], 1, two)], [true, false, true]);
	// "éé" has 2 characters and 4 bytes: -3/2 < -4/3 by characters, -3/4 > -4/3 by bytes
	const bytes = output([-3], [-4]);
	assert.deepEqual([right("acc_norm", ["éé", "abc"], 1, bytes), right("acc_bytes", ["éé", "abc"], 0, bytes)], [true, true]);
	assert.equal(right("acc", ["a", "b"], 0, output([-1], [-1])), true, "of two that are as likely the first, as numpy's argmax says");
	assert.deepEqual([[1, 2], [2], -1, []].map((value) => right("acc", ["a", "b", "c"], value, output([-3], [-2], [-4]))), [true, false, false, false]);
	assert.deepEqual([0, 1, [0, 1], -1].map((value) => right("exact_match", ["a", "bbbb"], value, two)), [false, true, true, false]);
	assert.match(right("exact_match", ["a"], 0, output([-1, null])), /no top_logprobs/);
	assert.deepEqual([output([-1, true]), output([-1, false])].map((said) => runChecks([{ type: "loglikelihood", metric: "acc" }], said).pass), [true, false]);
	assert.equal(runChecks([{ type: "loglikelihood", metric: "perplexity" }], output([-1, null])).pass, true, "of a perplexity nobody asks what is likeliest");
	assert.deepEqual(["mcc", "f1"].map((metric) => right(metric, ["a", "bbbb"], 0, two)), [true, true], "the likeliest choice");
});

test("Python's random numbers: few of a few, few of many, and a state that is used up", () => {
	const random = new PythonRandom(1234);
	assert.deepEqual([[22, 5], [1000, 5], [85, 6], [86, 6]].map(([n, k]) => random.sample([...Array(n).keys()], k)), [[14, 3, 0, 2, 18], [35, 687, 709, 85, 100], [45, 30, 2, 3, 82, 44], [82, 79, 61, 78, 59, 19]]);
	for (let i = 0; i < 1000; i++)
		random.next();
	assert.deepEqual(random.sample([...Array(7473).keys()], 3), [2197, 5528, 4110]);
});

test("lm-eval: what has no part here is refused by name", () => {
	const path = (more) => file("bad.yaml", TASK.replace(...more));
	assert.throws(() => fromLmEval(path(["xyz", ""])), /choose one with --filter: strict, flexible/);
	for (const [from, to, message] of [
		["generate_until", "loglikelihood_rolling", /output_type "loglikelihood_rolling" is not supported/],
		["generate_until", "multiple_choice", /filter_list is not supported, as there is no answer to filter/],
		["metric: exact_match", "metric: bleu", /metric "bleu" is not supported/],
		["task: sums", "task: sums\nnum_fewshot: -1", /num_fewshot is a number of examples up to 1000, not "-1"/],
		["task: sums", "task: sums\nnum_fewshot: 3", /3 of 2 documents cannot be chosen/],
		["task: sums", "task: sums\nnum_fewshot: 1\nfewshot_split: train", /no file of split "train"/],
		["task: sums", "task: sums\nnum_fewshot: 1\nfewshot_config: {sampler: balanced}", /sampler "balanced"/],
		["do_sample: false", "do_sample: true", /do_sample "true"/],
		["function: take_first", "function: majority_vote", /"majority_vote" is not supported/],
		["task: sums", "task: sums\nprocess_docs: f", /process_docs is no !function/],
		["task: sums", "task: sums\nprocess_results: !function utils.f", /"process_results" is not supported/],
		["task: sums", "task: sums\nprocess_docs: !function ../utils.f", /"..\/utils.f" is not supported/],
		["task: sums", "task: sums\ndoc_to_choice: question", /doc_to_choice is no list of choices|is no literal/],
		["dataset_path: json", "dataset_path: gsm8k", /dataset_path "gsm8k"/],
		["'\\.$'", "'(?>a)'", /regex .* is not supported/],
	])
		assert.throws(() => fromLmEval(path([from, to]), { filter: "strict" }), message);
});

test("lm-eval: its arithmetic is in its names", () => {
	const tasks = [{ task: "t", score: 0.6, n: 5, stderr: 0.244949 }, { task: "one", score: 1, n: 1, stderr: null },
		{ task: "ppl", score: 0.2, n: 2, stderr: 0.01, metric: "perplexity", value: 5 }, { task: "mcc", score: 0, n: 9, stderr: null, metric: "mcc", value: -0.5 }];
	assert.deepEqual(lmEvalResults({ tasks, started_at: "2030-01-01" }).results, {
		t: { alias: "t", "acc,none": 0.6, "acc_stderr,none": 0.244949 },
		one: { alias: "one", "acc,none": 1, "acc_stderr,none": "N/A" },
		ppl: { alias: "ppl", "perplexity,none": 5, "perplexity_stderr,none": 0.25 },
		mcc: { alias: "mcc", "mcc,none": -0.5, "mcc_stderr,none": "N/A" } });
	assert.deepEqual(lmEvalResults({ tasks, started_at: "2030-01-01" }).higher_is_better, { t: { acc: true }, one: { acc: true }, ppl: { perplexity: false }, mcc: { mcc: true } });
});

test("OpenAI evals: input and ideal", () => {
	const samples = lines({ input: [{ role: "system", content: "Answer." }, { role: "user", content: "2+2" }], ideal: "4" },
		{ input: "a (or b)?", ideal: ["(a)", "b."] });
	const [first, second] = fromOpenAIEvals(file("s.jsonl", samples), { task: "sums" });
	assert.equal(first.input.messages.length, 2);
	assert.deepEqual(["4", "4!", "44", "is 4", ""].map((output) => passes(first, output)), [true, true, true, false, false]);
	assert.deepEqual(["(a)", "b.", "b", "a"].map((output) => passes(second, output)), [true, true, false, false]);
	const [includes] = fromOpenAIEvals(file("s.jsonl", samples), { match: "includes" });
	assert.equal(passes(includes, "it is 4."), true);
	assert.throws(() => fromOpenAIEvals(file("s.jsonl", lines({ input: "x" }))), /line 1: "ideal" is no text/);
	assert.throws(() => fromOpenAIEvals(file("s.jsonl", lines({ input: "x", ideal: "y", choices: [] }))), /"choices"/);
	assert.throws(() => fromOpenAIEvals(file("s.jsonl", "{}\n{"), {}), /line 2 is no JSON/);
});

test("a prompt has images, for which the config declares tokens", () => {
	const template = JSON.stringify([{ role: "user", content: [{ type: "text", text: "What is {{ what }}?" },
		{ type: "image_url", image_url: { url: "https://pictures.example/{{ what }}.png", detail: "low" } }] }]);
	const [{ content }] = casePrompt({ input: { what: "this" }, template, declared: 5000 });
	assert.deepEqual(content, [{ type: "text", text: "What is this?" },
		{ type: "image_url", image_url: { url: "https://pictures.example/this.png", detail: "low" } }]);
	assert.throws(() => casePrompt({ input: { what: "this" }, template }), /there are images: declare max_input_tokens/);
	assert.throws(() => casePrompt({ input: { messages: [{ role: "user", content }] }, declared: 4000 }), /longer than 4000 tokens/,
		"a short address does not make an image cheap");
});

test("the judge sees the response between marks that its author cannot know", () => {
	const ask = (output, template) => judgeMessages({ rubric: "R", input: { q: 1 }, output,
		judge: { max_response_bytes: 6, template } })[0].content;
	const mark = /read (<<[0-9a-f]{32}>>)/.exec(ask("x"))[1];
	assert.notEqual(mark, /read (<<[0-9a-f]{32}>>)/.exec(ask("x"))[1], "each time others");
	assert.match(ask("{{ rubric }}"), /\n(<<[0-9a-f]{32}>>)\n\{\{ rub\n\1\n/, "it is no template, and cut");
	assert.match(ask("aéé€"), /\naéé\n/, "never within a character");
	assert.match(ask("out", "{{ response }}"), /^(<<[0-9a-f]{32}>>)\nout\n\1$/, "the config's own template has them, too");
});
