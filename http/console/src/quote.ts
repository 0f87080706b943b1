/*
 * quote.ts: what a submission would cost and when it would start, asked once
 * typing pauses, and again now and then while the page is visible.
 *
 * An answer that comes when something else is asked already is dropped.
 */
import { useEffect, useState } from 'preact/hooks';
import { Problem, request } from './api';
import type { Quote } from './rows';

const PAUSE = 300;
const AGAIN = 20000;

export interface Quoted {
	quote?: Quote;
	problem?: Problem;
}

/* body: as POST /v1/jobs takes it, without a key; null: nothing is asked. */
export function useQuote(body: object | null, turn: number): Quoted {
	const asked = body === null ? null : JSON.stringify(body);
	const [answer, setAnswer] = useState<Quoted & { to?: string }>({});

	useEffect(() => {
		if (asked === null) return undefined;
		let current = true;
		let timer = 0;
		const ask = async () => {
			let got: Quoted | undefined;

			try {
				if (!document.hidden) got = { quote: await request<Quote>('POST', '/v1/quote', JSON.parse(asked) as object) };
			} catch (error) {
				got = { problem: error instanceof Problem ? error : new Problem(0, { title: String(error) }) };
			}
			if (!current) return;
			if (got) setAnswer({ ...got, to: asked });
			timer = window.setTimeout(() => void ask(), AGAIN);
		};

		timer = window.setTimeout(() => void ask(), PAUSE);
		return () => {
			current = false;
			window.clearTimeout(timer);
		};
	}, [asked, turn]);
	return answer.to === asked ? answer : {};
}
