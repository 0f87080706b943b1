/*
 * format.ts: numbers, times and lengths of time as the pages write them.
 *
 * Credits are whole millionths (bigint), as the ledger has them: no amount is
 * ever a floating-point number, except where a picture needs a height.
 */
export type Micro = bigint;

const MILLION = 1000000n;

export function micro(text: string | null | undefined): Micro {
	if (!text) return 0n;
	const [, sign, whole, part] = /^(-?)(\d+)(?:\.(\d{0,6}))?/.exec(text) ?? ['', '', '0', ''];
	const value = BigInt(whole ?? '0') * MILLION + BigInt((part ?? '').padEnd(6, '0'));

	return sign ? -value : value;
}

/* For pictures and estimates only. */
export function credits(text: string | null | undefined): number {
	return text ? Number(text) : 0;
}

/* An amount in two pieces: down to hundredths, and what recedes. */
export function moneyParts(value: Micro): [string, string] {
	const positive = value < 0n ? -value : value;
	const whole = (positive / MILLION).toString().replace(/\B(?=(\d{3})+$)/g, ',');
	const part = (positive % MILLION).toString().padStart(6, '0');

	return [`${value < 0n ? '−' : ''}${whole}.${part.slice(0, 2)}`, part.slice(2)];
}

export function moneyText(value: Micro): string {
	return moneyParts(value).join('');
}

/* For axes and estimates: three digits. */
export function short(value: number): string {
	const v = Math.abs(value);
	const sign = value < 0 ? '−' : '';

	if (v >= 1e9) return `${sign}${+(v / 1e9).toPrecision(3)}G`;
	if (v >= 1e6) return `${sign}${+(v / 1e6).toPrecision(3)}M`;
	if (v >= 1e4) return `${sign}${+(v / 1e3).toPrecision(3)}k`;
	if (v >= 100) return `${sign}${Math.round(v).toLocaleString('en')}`;
	return `${sign}${+v.toPrecision(3)}`;
}

export function percent(fraction: number): string {
	return `${(100 * fraction).toFixed(fraction > 0 && fraction < 0.1 ? 1 : 0)} %`;
}

/* Seconds of an ISO 8601 duration; NaN if it is none. */
export function seconds(text: string | null | undefined): number {
	const m = /^(-?)P(?:(-?[\d.]+)Y)?(?:(-?[\d.]+)M)?(?:(-?[\d.]+)W)?(?:(-?[\d.]+)D)?(?:T(?:(-?[\d.]+)H)?(?:(-?[\d.]+)M)?(?:(-?[\d.]+)S)?)?$/.exec(text ?? '');

	if (!m) return NaN;
	const n = (i: number) => Number(m[i] ?? 0);

	return (m[1] ? -1 : 1) * (n(2) * 31557600 + n(3) * 2592000 + n(4) * 604800 + n(5) * 86400 + n(6) * 3600 + n(7) * 60 + n(8));
}

export function span(value: number): string {
	if (!Number.isFinite(value)) return '–';
	if (value < 60) return `${value < 10 ? +value.toFixed(1) : Math.floor(value)} s`;
	if (value < 3600) return `${Math.floor(value / 60)} min${value % 60 >= 1 ? ` ${Math.floor(value % 60)} s` : ''}`;
	if (value < 86400) return `${Math.floor(value / 3600)} h${value % 3600 >= 60 ? ` ${Math.floor((value % 3600) / 60)} min` : ''}`;
	return `${Math.floor(value / 86400)} d${value % 86400 >= 3600 ? ` ${Math.floor((value % 86400) / 3600)} h` : ''}`;
}

export function duration(text: string | null | undefined): string {
	return span(seconds(text));
}

/* The ISO 8601 duration of what a person writes: "90 min", "4h", "1d 12h", "0:30". */
export function parseSpan(text: string): string | null {
	const words = text.trim().toLowerCase();
	const clock = /^(\d+):(\d\d)(?::(\d\d))?$/.exec(words);
	const units: Record<string, number> = { d: 86400, h: 3600, m: 60, s: 1 };
	let total = 0;

	if (clock) total = Number(clock[1]) * 3600 + Number(clock[2]) * 60 + Number(clock[3] ?? 0);
	else {
		if (!/^(\d+(\.\d+)?\s*(d|h|m|s)[a-z]*\s*)+$/.test(words)) return null;
		for (const [, number, unit] of words.matchAll(/(\d+(?:\.\d+)?)\s*(d|h|m|s)[a-z]*/g)) total += Number(number) * (units[unit ?? 's'] ?? 1);
	}
	return total > 0 ? `PT${Math.round(total)}S` : null;
}

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const SHORT_DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const MINUTE = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

export function dayOf(text: string | null | undefined): string {
	return text ? DAY.format(new Date(text)) : '–';
}

export function shortDay(at: number): string {
	return SHORT_DAY.format(new Date(at));
}

export function minuteOf(at: number): string {
	return MINUTE.format(new Date(at));
}

export function instant(text: string | null | undefined): string {
	if (!text) return '–';
	const at = new Date(text);
	const now = new Date();

	if (now.toDateString() === at.toDateString()) return TIME.format(at);
	return `${(now.getFullYear() === at.getFullYear() ? SHORT_DAY : DAY).format(at)} ${MINUTE.format(at)}`;
}

/* "in 3 days", "2 min ago" */
export function fromNow(text: string | null | undefined): string {
	if (!text) return '–';
	const delta = (new Date(text).getTime() - Date.now()) / 1000;
	const size = Math.abs(delta);
	const words =
		size < 90 ? `${Math.round(size)} s`
		: size < 5400 ? `${Math.round(size / 60)} min`
		: size < 129600 ? `${Math.round(size / 3600)} h`
		: `${Math.round(size / 86400)} days`;

	return delta >= 0 ? `in ${words}` : `${words} ago`;
}

/* How many devices a set such as "{0-3,6}" has. */
export function countSet(text: string): number {
	let count = 0;

	for (const [, first, last] of text.matchAll(/(\d+)(?:-(\d+))?/g)) count += Number(last ?? first) - Number(first) + 1;
	return count;
}

export function accountName(account: string): string {
	return account === '' ? 'the organisation itself' : account;
}

/* A number of bytes, as disks are sold: a GB has 10^9. */
export function bytesText(value: number | string): string {
	const n = Number(value);
	const unit = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
	const step = n < 1000 ? 0 : Math.min(5, Math.floor(Math.log10(n) / 3));

	return step === 0 ? `${n} B` : `${+(n / 1000 ** step).toPrecision(3)} ${unit[step]}`;
}
