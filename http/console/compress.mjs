/* Packs each file of the build beside it, and refuses a build that has grown too large. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const MOST = 200 * 1000;
let total = 0;

for (const name of readdirSync('dist', { recursive: true })) {
	const path = join('dist', String(name));

	if (!statSync(path).isFile() || !/\.(html|js|css|svg)$/.test(path)) continue;
	const packed = gzipSync(readFileSync(path), { level: 9 });

	writeFileSync(`${path}.gz`, packed);
	total += packed.length;
}
console.log(`the console has ${total} bytes, packed`);
if (total > MOST) {
	console.error(`more than ${MOST} bytes`);
	process.exit(1);
}
