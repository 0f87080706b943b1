/*
 * route.tsx: the page's address.  Each page has one that can be sent to others.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

const BASE = '/console';

export interface Place {
	words: string[];
	query: URLSearchParams;
}

export function here(): Place {
	const path = window.location.pathname.replace(/^\/console\/?/, '');

	return {
		words: path.split('/').filter(Boolean).map(decodeURIComponent),
		query: new URLSearchParams(window.location.search)
	};
}

/* The address of a page: its words, and what follows the question mark. */
export function to(words: (string | number)[], query: Record<string, string | undefined> = {}): string {
	const more = new URLSearchParams();

	for (const [name, value] of Object.entries(query)) if (value) more.set(name, value);
	const text = more.toString();

	return `${BASE}/${words.map((word) => encodeURIComponent(String(word))).join('/')}${text ? `?${text}` : ''}`;
}

export function go(address: string, replace = false): void {
	if (replace) window.history.replaceState(null, '', address);
	else {
		window.history.pushState(null, '', address);
		window.scrollTo(0, 0);
	}
	window.dispatchEvent(new Event('gpucredit:place'));
}

export function usePlace(): Place {
	const [place, setPlace] = useState(here);

	useEffect(() => {
		const moved = () => setPlace(here());

		window.addEventListener('popstate', moved);
		window.addEventListener('gpucredit:place', moved);
		return () => {
			window.removeEventListener('popstate', moved);
			window.removeEventListener('gpucredit:place', moved);
		};
	}, []);
	return place;
}

export function Link(props: { href: string; class?: string; children?: ComponentChildren; current?: boolean; label?: string }) {
	const clicked = (event: JSX.TargetedMouseEvent<HTMLAnchorElement>) => {
		if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
		event.preventDefault();
		go(props.href);
	};

	return (
		<a href={props.href} class={props.class} onClick={clicked} aria-label={props.label} aria-current={props.current ? 'page' : undefined}>
			{props.children}
		</a>
	);
}
