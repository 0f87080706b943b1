// formats.test.mjs: cases from each format, and what is refused by name
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fromLmEval } from "../../cli/lib/lm_eval.mjs";
import { fromOpenAIEvals } from "../../cli/lib/openai_evals.mjs";
import { fromPromptfoo } from "../../cli/lib/promptfoo.mjs";
import { runChecks } from "../../cli/lib/checks.mjs";
import { judgeMessages } from "../../cli/lib/prompt.mjs";
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

test("promptfoo: JSON Lines are tests, whose variables are the input", () => {
	const [one] = fromPromptfoo(file("a.jsonl", lines({ vars: { q: "2+2" }, assert: [{ type: "equals", value: "4" }] })));
	assert.deepEqual(one.input, { q: "2+2" });
	assert.equal(passes(one, "4"), true);
});

test("promptfoo: what has no part here is refused by name", () => {
	for (const [content, message] of [
		["tests: [{assert: [{type: javascript, value: 'true'}]}]", /"javascript" is not supported/],
		["tests: [{assert: [{type: assert-set, assert: []}]}]", /"assert" is not supported/],
		["tests: [{assert: [{type: equals, value: x, transform: output}]}]", /"transform" is not supported/],
		["tests: [{vars: {x: 'file://x.txt'}, assert: [{type: equals, value: x}]}]", /"x" is a file/],
		["tests: [{assert: [{type: is-json, value: 'file://schema.json'}]}]", /file:\/\/schema.json" is not supported/],
		["prompts: ['file://p.txt']\ntests: []", /is not supported/],
		["scenarios: []\ntests: []", /"scenarios" is not supported/],
		["tests: [{assert: [{type: llm-rubric, value: a, threshold: 0.8}]}]", /"threshold" of llm-rubric/],
		["tests: [{assert: [{type: llm-rubric, value: a}, {type: llm-rubric, value: b}]}]", /one llm-rubric/],
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

test("lm-eval: what has no part here is refused by name", () => {
	const path = (more) => file("bad.yaml", TASK.replace(...more));
	assert.throws(() => fromLmEval(path(["xyz", ""])), /choose one with --filter: strict, flexible/);
	for (const [from, to, message] of [
		["generate_until", "multiple_choice", /output_type "multiple_choice" is not supported/],
		["metric: exact_match", "metric: bleu", /metric "bleu" is not supported/],
		["task: sums", "task: sums\nnum_fewshot: 5", /num_fewshot "5"/],
		["do_sample: false", "do_sample: true", /do_sample "true"/],
		["function: take_first", "function: majority_vote", /"majority_vote" is not supported/],
		["task: sums", "task: sums\nprocess_docs: f", /"process_docs" is not supported/],
		["dataset_path: json", "dataset_path: gsm8k", /dataset_path "gsm8k"/],
		["'\\.$'", "'\\Z'", /regex .* is not supported/],
	])
		assert.throws(() => fromLmEval(path([from, to]), { filter: "strict" }), message);
});

test("lm-eval: its arithmetic is in its names", () => {
	const tasks = [{ task: "t", score: 0.6, n: 5, stderr: 0.244949 }, { task: "one", score: 1, n: 1, stderr: null }];
	assert.deepEqual(lmEvalResults({ tasks, started_at: "2030-01-01" }).results, {
		t: { alias: "t", "acc,none": 0.6, "acc_stderr,none": 0.244949 },
		one: { alias: "one", "acc,none": 1, "acc_stderr,none": "N/A" } });
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

test("the judge sees the response between marks that its author cannot know", () => {
	const ask = (output, template) => judgeMessages({ rubric: "R", input: { q: 1 }, output,
		judge: { max_response_bytes: 6, template } })[0].content;
	const mark = /read (<<[0-9a-f]{32}>>)/.exec(ask("x"))[1];
	assert.notEqual(mark, /read (<<[0-9a-f]{32}>>)/.exec(ask("x"))[1], "each time others");
	assert.match(ask("{{ rubric }}"), /\n(<<[0-9a-f]{32}>>)\n\{\{ rub\n\1\n/, "it is no template, and cut");
	assert.match(ask("aéé€"), /\naéé\n/, "never within a character");
	assert.match(ask("out", "{{ response }}"), /^(<<[0-9a-f]{32}>>)\nout\n\1$/, "the config's own template has them, too");
});
