/*
 * markdown.tsx: shows a text in Markdown that somebody else wrote.
 *
 * What comes out are elements that are made here, never HTML of the author's:
 * a script, a style or a form of his is shown as the text that it is. Pictures
 * are named and not loaded, because a request would tell their host who looks.
 * A link leads out of here only by http and https; its host stands beside it,
 * and where its words look like another address, its own stands after them.
 * Characters that turn the direction of writing are left out, as they would
 * let words read differently from what they are.
 *
 * Each step looks ahead for a bounded distance, and a text is cut after so many
 * elements, so no text keeps the page busy.
 */
import { Fragment, type ComponentChildren, type VNode } from 'preact';

const MOST_NODES = 8000;
const AHEAD = 2000;
const DEEPEST = 5;

interface Budget {
	left: number;
}

/* The lines at the beginning that are metadata. */
export function withoutFields(text: string): string {
	const lines = text.replace(/\r\n?/g, '\n');
	const end = /^---[ \t]*\n/.test(lines) ? lines.indexOf('\n---', 3) : -1;

	return end < 0 ? lines : lines.slice(lines.indexOf('\n', end + 1) < 0 ? lines.length : lines.indexOf('\n', end + 1) + 1);
}

function withoutComments(text: string): string {
	let kept = '';
	let from = 0;

	for (let at = text.indexOf('<!--'); at >= 0; at = text.indexOf('<!--', from)) {
		const end = text.indexOf('-->', at + 4);

		kept += text.slice(from, at);
		if (end < 0) return kept;
		from = end + 3;
	}
	return kept + text.slice(from);
}

/* Where a link may lead: the web, and not in somebody's name. */
export function destination(text: string): URL | null {
	if (!/^https?:\/\//i.test(text) || text.length > AHEAD) return null;
	try {
		const url = new URL(text);

		return url.username || url.password ? null : url;
	} catch {
		return null;
	}
}

/* An address as people write it. */
function bare(text: string): string {
	return text.replace(/^https?:\/\//i, '').replace(/\/$/, '');
}

/* Whether words look like an address, or name a host, and are not where a link leads. */
function lies(words: string, url: URL): boolean {
	if (bare(words) === bare(url.href) || words.toLowerCase() === url.host) return false;
	for (const [name] of words.slice(0, AHEAD).matchAll(/[\p{L}\p{N}-]+(?:[.\u3002\uff0e\uff61][\p{L}\p{N}-]+)+/gu)) if (/[.\u3002\uff0e\uff61]\p{L}{2,}$/u.test(name)) return true;
	return words === '' || words.includes('://');
}

function textOf(node: ComponentChildren): string {
	if (Array.isArray(node)) return node.map(textOf).join('');
	if (typeof node === 'string') return node;
	return node && typeof node === 'object' && 'props' in node ? textOf((node as VNode<{ children?: ComponentChildren }>).props.children) : '';
}

function Outward(props: { url: URL; children?: ComponentChildren }) {
	const words = textOf(props.children).trim();
	const lying = lies(words, props.url);

	return (
		<>
			{lying && words !== '' && <>{words} </>}
			<a href={props.url.href} rel="noopener noreferrer nofollow">{lying ? props.url.href : <bdi>{words}</bdi>}</a>
			{!lying && bare(words) !== bare(props.url.href) && <small> ({props.url.host})</small>}
		</>
	);
}

/* For each opening bracket where it is closed. */
function brackets(text: string): Map<number, number> {
	const found = new Map<number, number>();
	const open: number[] = [];

	for (let i = 0; i < text.length; i++) {
		const c = text[i];

		if (c === '\\') i++;
		else if (c === '[') open.push(i);
		else if (c === ']' && open.length > 0) found.set(open.pop() as number, i);
	}
	return found;
}

/* Tags that only arrange text; they are left out, and what they hold stays. */
const TAG = /<\/?(?:a|abbr|b|big|br|center|code|dd|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i|img|kbd|li|ol|p|picture|pre|q|s|small|source|span|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr|u|ul)(?:[\s/][^<>]{0,500})?>/iy;

/* Text within a line: words, emphasis, code, links. */
function inline(text: string, budget: Budget, depth = 0): ComponentChildren[] {
	const out: ComponentChildren[] = [];
	const closes = brackets(text);
	let plain = '';
	let i = 0;
	const add = (node: ComponentChildren) => {
		if (plain) out.push(plain);
		plain = '';
		if (budget.left-- > 0) out.push(node);
	};
	const inner = (words: string) => (depth < DEEPEST ? inline(words, budget, depth + 1) : [words]);

	while (i < text.length) {
		const c = text[i] as string;

		if (c === '\\' && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? '')) {
			plain += text[i + 1];
			i += 2;
			continue;
		}
		if (c === '`') {
			let run = 1;

			while (run < 8 && text[i + run] === '`') run++;
			const end = text.slice(i + run, i + run + AHEAD).indexOf('`'.repeat(run));

			if (end >= 0) {
				add(<code>{text.slice(i + run, i + run + end).trim()}</code>);
				i += 2 * run + end;
				continue;
			}
			plain += text.slice(i, i + run);
			i += run;
			continue;
		}
		const open = c === '!' && text[i + 1] === '[' ? i + 1 : i;

		if (text[open] === '[') {
			const end = closes.get(open) ?? -1;
			const found = end > 0 && text[end + 1] === '(' ? /^\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)?)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(end + 1, end + 1 + AHEAD)) : null;

			if (found) {
				const words = text.slice(open + 1, end);
				const url = destination(found[1] ?? '');

				if (open > i) add(<span class="muted">[picture{words ? `: ${words}` : ''}]</span>);
				else if (url) add(<Outward url={url}>{inner(words)}</Outward>);
				else add(<>{inner(words)}</>);
				i = end + 1 + found[0].length;
				continue;
			}
		}
		if (c === '<') {
			const address = /^<(https?:\/\/[^\s<>]+)>/i.exec(text.slice(i, i + AHEAD));
			const url = address ? destination(address[1] ?? '') : null;

			TAG.lastIndex = i;
			const tag = TAG.exec(text);

			if (address && url) {
				add(<Outward url={url}>{url.href}</Outward>);
				i += address[0].length;
				continue;
			}
			if (tag) {
				if (/^<(br|hr)/i.test(tag[0])) add(<br />);
				else if (/^<img/i.test(tag[0])) add(<span class="muted">[picture]</span>);
				i += tag[0].length;
				continue;
			}
		}
		if ((c === '*' || c === '_' || (c === '~' && text[i + 1] === '~')) && !(c === '_' && /[\p{L}\p{N}]/u.test(text[i - 1] ?? ''))) {
			let run = 1;

			while (run < 3 && text[i + run] === c) run++;
			const mark = c.repeat(run);
			const from = i + run;
			const window = text.slice(from, from + AHEAD);
			let end = /^\s|^$/.test(window.slice(0, 1)) ? -1 : window.indexOf(mark, 1);

			for (let n = 0; end > 0 && n < 20 && (/\s/.test(window[end - 1] ?? '') || window[end + run] === c || (c === '_' && /[\p{L}\p{N}]/u.test(window[end + run] ?? ''))); n++) end = window.indexOf(mark, end + 1);
			if (end > 0 && !/\s/.test(window[end - 1] ?? '')) {
				const words = inner(window.slice(0, end));

				add(c === '~' ? <s>{words}</s> : run === 1 ? <em>{words}</em> : <strong>{words}</strong>);
				i = from + end + run;
				continue;
			}
			plain += mark;
			i = from;
			continue;
		}
		if ((c === 'h' || c === 'H') && !/[\p{L}\p{N}]/u.test(text[i - 1] ?? '')) {
			const found = /^https?:\/\/[^\s<>"'`[\]{}|\\^]+/i.exec(text.slice(i, i + AHEAD))?.[0].replace(/[.,;:!?*_)]{1,9}$/, '') ?? '';
			const url = destination(found);

			if (url) {
				add(<Outward url={url}>{url.href}</Outward>);
				i += found.length;
				continue;
			}
		}
		plain += c;
		i++;
	}
	if (plain) out.push(plain);
	return out;
}

const FENCE = /^ {0,3}(`{3,9}|~{3,9})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])[ \t]+/;
const DASHES = /^[ \t|:-]{3,400}$/;

function isStart(line: string): boolean {
	return FENCE.test(line) || HEADING.test(line) || RULE.test(line.slice(0, 200)) || ITEM.test(line) || /^ {0,3}>/.test(line);
}

/* The cells of a line of a table. */
function cells(line: string): string[] {
	const words = line.trim().replace(/^\|/, '').replace(/\|$/, '').replace(/\\\|/g, '\u0000').split('|');

	return words.slice(0, 40).map((word) => word.replace(/\u0000/g, '|').trim());
}

function heading(level: number, words: ComponentChildren) {
	/* the page and its section have the first two levels */
	return level === 1 ? <h3>{words}</h3> : level === 2 ? <h4>{words}</h4> : level === 3 ? <h5>{words}</h5> : <h6>{words}</h6>;
}

/* The lines of a list from one on: each item with its lines, and where it ends. */
function items(lines: string[], from: number): { list: string[][]; end: number } {
	const list: string[][] = [];
	let i = from;

	while (i < lines.length) {
		const line = lines[i] ?? '';
		const mark = ITEM.exec(line);
		const inset = (ITEM.exec(lines[from] ?? '')?.[1] ?? '').length;

		if (mark && (mark[1] ?? '').length <= inset + 1) list.push([line.slice(mark[0].length)]);
		else if (/^(?: {2}|\t)/.test(line) || (line.trim() === '' && /^(?: {2}|\t)/.test(lines[i + 1] ?? ''))) list[list.length - 1]?.push(line.replace(/^(?: {1,4}|\t)/, ''));
		else if (line.trim() === '' && ITEM.test(lines[i + 1] ?? '')) {
			/* an empty line between two items */
		} else if (line.trim() !== '' && !isStart(line)) list[list.length - 1]?.push(line);
		else break;
		i++;
	}
	return { list, end: i };
}

function blocks(lines: string[], budget: Budget, depth = 0): ComponentChildren[] {
	const out: ComponentChildren[] = [];
	let i = 0;

	while (i < lines.length && budget.left > 0) {
		const line = lines[i] ?? '';
		const fence = FENCE.exec(line);
		const head = HEADING.exec(line);

		budget.left--;
		if (line.trim() === '') i++;
		else if (fence) {
			const mark = fence[1] ?? '```';
			let end = i + 1;

			while (end < lines.length && !(lines[end] ?? '').trim().startsWith(mark)) end++;
			out.push(<pre class="code"><code>{lines.slice(i + 1, end).join('\n')}</code></pre>);
			i = end + 1;
		} else if (head) {
			out.push(heading((head[1] ?? '#').length, inline(line.slice(head[0].length).trim().replace(/ #{1,9}$/, ''), budget)));
			i++;
		} else if (RULE.test(line.slice(0, 200))) {
			out.push(<hr />);
			i++;
		} else if (/^ {0,3}>/.test(line)) {
			const quoted: string[] = [];

			for (; i < lines.length && /^ {0,3}>/.test(lines[i] ?? ''); i++) quoted.push((lines[i] ?? '').replace(/^ {0,3}> ?/, ''));
			out.push(<blockquote>{depth < DEEPEST ? blocks(quoted, budget, depth + 1) : quoted.join(' ')}</blockquote>);
		} else if (ITEM.test(line)) {
			const { list, end } = items(lines, i);
			const rows = list.map((one) => <li>{one.length === 1 || depth >= DEEPEST ? inline(one.join(' '), budget) : blocks(one, budget, depth + 1)}</li>);

			out.push(/^ *\d/.test(line) ? <ol>{rows}</ol> : <ul>{rows}</ul>);
			i = end;
		} else if (line.includes('|') && DASHES.test(lines[i + 1] ?? '') && (lines[i + 1] ?? '').includes('-')) {
			const names = cells(line);
			const rows: string[][] = [];

			for (i += 2; i < lines.length && (lines[i] ?? '').includes('|'); i++) if (rows.length < 300) rows.push(cells(lines[i] ?? ''));
			out.push(
				<div class="scroll" role="group" aria-label="Table of the card" tabIndex={0}>
					<table>
						<thead><tr>{names.map((name) => <th scope="col">{inline(name, budget)}</th>)}</tr></thead>
						<tbody>{rows.map((row) => <tr>{names.map((_, n) => <td>{inline(row[n] ?? '', budget)}</td>)}</tr>)}</tbody>
					</table>
				</div>
			);
		} else {
			const words = [line];

			for (i++; i < lines.length && (lines[i] ?? '').trim() !== '' && !isStart(lines[i] ?? '') && !/^ {0,3}(=+|-+)[ \t]*$/.test((lines[i] ?? '').slice(0, 200)); i++) words.push(lines[i] ?? '');
			const under = /^ {0,3}(=+|-+)[ \t]*$/.exec((lines[i] ?? '').slice(0, 200));

			if (under) {
				out.push(heading((under[1] ?? '').startsWith('=') ? 1 : 2, inline(words.join(' '), budget)));
				i++;
			} else {
				const shown = inline(words.map((one) => one.replace(/ {2,9}$/, '<br>')).join('\n'), budget);

				if (textOf(shown).trim() !== '' || shown.some((one) => typeof one === 'object')) out.push(<p>{shown}</p>);
			}
		}
	}
	return out;
}

export function Markdown(props: { text: string }) {
	const budget = { left: MOST_NODES };
	const text = withoutComments(withoutFields(props.text)).replace(/[\u0000-\u0008\u000b-\u001f\u007f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '');
	const shown = blocks(text.split('\n'), budget);

	return (
		<div class="markdown">
			{shown.map((one, n) => <Fragment key={n}>{one}</Fragment>)}
			{budget.left <= 0 && <p class="muted">The card is longer than what is shown here.</p>}
		</div>
	);
}
