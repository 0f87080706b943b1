/*
 * live.ts: what an address answers, kept current while the page is visible: when
 * an event says that something happened, and now and then.
 *
 * All parts of the page that show the same address share one request. Each asks
 * with the tag of what it has, so nothing is sent that has not changed.
 */
import { useEffect, useState } from 'preact/hooks';
import { Problem, read } from './api';
import { followEvents } from './events';

export interface Live<T> {
	data?: T;
	problem?: Problem;
	again: () => void;
}

interface Entry {
	value?: unknown;
	tag?: string;
	problem?: Problem;
	every: number;
	listeners: Set<() => void>;
	timer?: number;
	busy: boolean;
	failures: number;
}

const entries = new Map<string, Entry>();

/* how much longer a page waits before it asks again while it hears of events */
let patience = 1;

function schedule(path: string, entry: Entry, delay: number): void {
	window.clearTimeout(entry.timer);
	if (entry.listeners.size > 0) entry.timer = window.setTimeout(() => void refresh(path, entry), delay);
}

async function refresh(path: string, entry: Entry): Promise<void> {
	if (entry.busy) return;
	if (document.hidden && entry.value !== undefined) return;
	entry.busy = true;
	try {
		const answer = await read<unknown>(path, entry.tag);

		if (answer || entry.problem) {
			if (answer) {
				entry.value = answer.value;
				entry.tag = answer.tag;
			}
			entry.problem = undefined;
			entry.listeners.forEach((listener) => listener());
		}
		entry.failures = 0;
	} catch (error) {
		entry.problem = error instanceof Problem ? error : new Problem(0, { title: String(error) });
		entry.failures++;
		entry.listeners.forEach((listener) => listener());
	}
	entry.busy = false;
	/* 0: only when it is asked for again */
	if (entry.every > 0) schedule(path, entry, entry.failures > 0 ? Math.min(entry.every * 2 ** entry.failures, 15000) : entry.every > 5000 ? entry.every : entry.every * patience);
}

document.addEventListener('visibilitychange', () => {
	if (!document.hidden) refreshAll();
});

/* Ask for everything that is shown again, because something was changed. */
export function refreshAll(): void {
	entries.forEach((entry, path) => {
		if (entry.listeners.size > 0) void refresh(path, entry);
	});
}

/* The addresses that are asked often anyway are asked at once, and once a second at most. */
let due = 0;
let last = 0;

function happened(): void {
	if (due !== 0) return;
	due = window.setTimeout(
		() => {
			due = 0;
			last = Date.now();
			entries.forEach((entry, path) => {
				if (entry.listeners.size > 0 && entry.every > 0 && entry.every <= 5000) void refresh(path, entry);
			});
		},
		Math.max(100, last + 1000 - Date.now())
	);
}

/* Follow the events until the function that it answers is called. */
export function follow(): () => void {
	return followEvents(happened, (isOpen) => {
		patience = isOpen ? 4 : 1;
	});
}

/* Forget everything, because somebody else may sign in. */
export function forgetAll(): void {
	entries.forEach((entry) => window.clearTimeout(entry.timer));
	entries.clear();
}

/* What an address answers; null asks for nothing.  every: milliseconds. */
export function useLive<T>(path: string | null, every = 2000): Live<T> {
	const [, redraw] = useState(0);

	useEffect(() => {
		if (path === null) return undefined;
		const listener = () => redraw((n) => n + 1);
		const entry: Entry = entries.get(path) ?? { every, listeners: new Set(), busy: false, failures: 0 };

		entry.every = every === 0 ? entry.every : every;
		entries.set(path, entry);
		entry.listeners.add(listener);
		redraw((n) => n + 1);
		void refresh(path, entry);
		return () => {
			entry.listeners.delete(listener);
			if (entry.listeners.size === 0) {
				window.clearTimeout(entry.timer);
				if (entries.size > 60) entries.delete(path);
			}
		};
	}, [path, every]);
	const entry = path === null ? undefined : entries.get(path);

	return {
		data: entry?.value as T | undefined,
		problem: entry?.problem,
		again: () => {
			if (path !== null && entry) void refresh(path, entry);
		}
	};
}
