// The digest of the program that measures.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, appendFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { digestOf, harnessDigest } from "../../cli/lib/harness.mjs";

test("the program's digest changes with each of its files, its libraries and Node.js", () => {
	const folder = mkdtempSync(join(tmpdir(), "harness-"));
	const cli = new URL("../../cli/", import.meta.url);
	const digest = (version = process.version) => digestOf(pathToFileURL(join(folder, "lib/")), version);

	try {
		for (const name of ["lib", "package-lock.json"])
			cpSync(new URL(name, cli), join(folder, name), { recursive: true });
		assert.equal(digest(), harnessDigest());
		const seen = new Set([digest(), digest("v99.0.0")]);
		for (const name of ["lib/checks.mjs", "lib/script.mjs", "package-lock.json"]) {
			appendFileSync(join(folder, name), "\n");
			seen.add(digest());
		}
		assert.equal(seen.size, 5);
		assert.match(digest(), /^[0-9a-f]{64}$/);
	} finally {
		rmSync(folder, { recursive: true });
	}
});
