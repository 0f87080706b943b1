// log.mjs: what is printed where others read it
//
// A job of CI prints names and messages that the author of a change may have
// chosen.  GitHub takes a line that begins with "::", and "##[" anywhere in one,
// for a command of its own; GitLab folds its log at control characters.

// A text as a part of one line, in which nothing is a command.
export function oneLine(text) {
	return String(text).replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").replace(/##(?=\[)/g, "# #").replace(/^(\s*):(?=:)/, "$1: ");
}

// Values of variables whose names say that they are secret, each line of one by
// itself, and of variables that are named.  Short values are words that stand
// anywhere.
const SECRET = /PASS(WORD|WD|PHRASE)?|TOKEN|SECRET|KEY|CREDENTIAL|AUTH/i;
const SHORTEST = 6;

export function secretsIn(env, names = []) {
	const values = Object.entries(env).filter(([name]) => SECRET.test(name) || names.includes(name))
		.flatMap(([, value]) => [value, ...value.split("\n")].map((part) => part.trim()));

	return [...new Set(values)].filter(({ length }) => length >= SHORTEST).sort((a, b) => b.length - a.length);
}

export function mask(text, secrets) {
	return secrets.reduce((left, secret) => left.replaceAll(secret, "***"), text);
}
