// script.mjs: runs JavaScript that comes with a set, for checks and transforms
//
// The code runs in QuickJS, an interpreter compiled to WebAssembly.  It has
// the language alone: no files, network, environment, modules or clock of this
// process, so that whoever writes a set reaches nothing of the machine that
// measures it.  The caller is the sandbox's process, which is killed where the
// code does not end; memory and stack are limited here.
import variant from "@jitl/quickjs-wasmfile-release-sync";
import { Scope, newQuickJSWASMModuleFromVariant } from "quickjs-emscripten-core";

const MOST_MEMORY = 128 * 1024 * 1024;
const MOST_STACK = 512 * 1024;
const MOST_JOBS = 1_000_000;

// Reads {source, output, context} and resolves to the JSON of [type, value].
// "source" is an expression, the body of a function if it has several lines, or
// with "file" a CommonJS module that exports a function, or one by "name".
const RUN = `(async (text) => {
	try {
		const { source, file, name, output, context } = JSON.parse(text);
		const pick = (all) => typeof all?.[name] === "function" ? all[name] : typeof all === "function" ? all : all?.default;
		let called;
		if (file) {
			const module = { exports: {} };
			const require = (what) => { throw new Error('a script of a set cannot require "' + what + '"'); };
			new Function("module", "exports", "require", source)(module, module.exports, require);
			called = pick(module.exports);
		} else
			called = new Function("output", "context", source.includes("\\n") ? source : "return " + source);
		if (typeof called !== "function")
			throw new Error("the script exports no function" + (name ? ' "' + name + '"' : ""));
		const value = await called(output, context);
		return JSON.stringify([value === null ? "null" : typeof value, value]);
	} catch (error) {
		return JSON.stringify(["error", String(error?.message ?? error)]);
	}
})`;
const CONSOLE = "globalThis.console = Object.fromEntries(['log', 'info', 'warn', 'error', 'debug'].map((name) => [name, () => {}]));";

let quickjs = await newQuickJSWASMModuleFromVariant(variant);
let renewal = null;

// What came of the scripts of this task that left the interpreter in disorder,
// as one does whose stack or memory overflows.
const outcomes = new Map();

// Runs a task that runs scripts.  Where a script leaves the interpreter in
// disorder, a new one is loaded and the task begins again, so that no other script
// is affected; of the former its first outcome stands.
export async function withScripts(task) {
	outcomes.clear();
	for (;;) {
		if (renewal) {
			quickjs = await renewal;
			renewal = null;
		}
		try {
			const value = task();
			if (!renewal)
				return value;
		} catch (error) {
			if (!renewal)
				throw error;
		}
	}
}

function renew() {
	quickjs = null;
	renewal = newQuickJSWASMModuleFromVariant(variant);
}

// The text of an ES module that has only exports of its own, as a CommonJS module.
export function toCommonJs(source) {
	const names = [];

	return source
		.replace(/^export\s+default\s+/m, "module.exports = ")
		.replace(/^export\s+((?:async\s+)?function\s*\*?|const|let|var|class)\s+([\w$]+)/gm, (all, kind, name) => {
			names.push(name);
			return `${kind} ${name}`;
		}) + names.map((name) => `\nmodule.exports.${name} = ${name};`).join("");
}

// Runs a script: a text, or {source, file: true, name}.  Returns its result as
// JSON has it; throws what it throws.
export function runScript(script, output, context) {
	const given = typeof script === "string" ? { source: script } : script;
	const argument = JSON.stringify({ ...given, output, context });
	const { json, error } = outcomes.get(argument) ?? outcomeOf(argument);

	if (error)
		throw error;
	const [type, value] = JSON.parse(json);
	if (type === "error")
		throw new Error(value);
	return type === "number" && value === null ? NaN : type === "undefined" ? undefined : value;
}

// What RUN returns, or what is thrown; none where the interpreter is not loaded,
// and the task begins again.
function outcomeOf(argument) {
	const scope = new Scope();
	let outcome;

	if (!quickjs)
		return { error: new Error("the interpreter of scripts is not loaded") };
	try {
		outcome = { json: evaluate(scope, argument) };
	} catch (error) {
		outcome = { error };
	}
	try {
		scope.dispose();
	} catch {
		renew();
		outcomes.set(argument, outcome);
	}
	return outcome;
}

// Calls RUN in an interpreter of its own.
function evaluate(scope, argument) {
	const runtime = scope.manage(quickjs.newRuntime());
	runtime.setMemoryLimit(MOST_MEMORY);
	runtime.setMaxStackSize(MOST_STACK);
	const vm = scope.manage(runtime.newContext());
	const got = (result) => {
		const handle = scope.manage(result.error ?? result.value);
		if (result.error)
			throw new Error(vm.dump(handle)?.message ?? "the script fails");
		return handle;
	};

	got(vm.evalCode(CONSOLE));
	const promise = got(vm.callFunction(got(vm.evalCode(RUN)), vm.undefined, scope.manage(vm.newString(argument))));
	scope.manage(runtime.executePendingJobs(MOST_JOBS));
	const state = vm.getPromiseState(promise);
	if (state.type === "pending")
		throw new Error("the script waits for what never comes");
	const handle = scope.manage(state.type === "fulfilled" ? state.value : state.error);
	if (state.type === "rejected")
		throw new Error("the script needs too much memory");
	return vm.getString(handle);
}
