// lines.mjs: JSON Lines
import { readFileSync } from "node:fs";

// The documents of a file, each with the number of its line.
export function readJsonLines(file) {
	return readFileSync(file, "utf8").split("\n").flatMap((text, i) => {
		if (text.trim() === "")
			return [];
		try {
			return [{ line: i + 1, value: JSON.parse(text) }];
		} catch {
			throw new Error(`line ${i + 1} is no JSON`);
		}
	});
}
