// harness.mjs: which program measures
//
// A preview takes over results of other runs only if the same program measured
// them, as another one may render, check or judge otherwise.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

let digest;

// A digest of this program's own files, of the versions of its libraries, and
// of Node.js, whose engine runs regular expressions.
export function harnessDigest() {
	return digest ??= digestOf(new URL(".", import.meta.url), process.version);
}

export function digestOf(folder, version) {
	const hash = createHash("sha256").update(version);
	const files = readdirSync(folder).filter((name) => name.endsWith(".mjs")).sort();

	for (const name of [...files, "../package-lock.json"]) {
		const text = readFileSync(new URL(name, folder));
		hash.update(`${name.length}:${name}${text.length}:`).update(text);
	}
	return hash.digest("hex");
}
