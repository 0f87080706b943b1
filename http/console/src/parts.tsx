/*
 * parts.tsx: what the pages are made of.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Problem } from './api';
import type { Live } from './live';
import { duration, fromNow, instant, micro, moneyParts, type Micro } from './format';

/* Exact; digits after hundredths recede. */
export function Money(props: { of: string | Micro | null | undefined }) {
	if (props.of === null || props.of === undefined) return <span class="num">–</span>;
	const [main, rest] = moneyParts(typeof props.of === 'bigint' ? props.of : micro(props.of));

	return (
		<span class="num">
			{main}
			<small>{rest}</small>
		</span>
	);
}

export function When(props: { at: string | null | undefined; relative?: boolean }) {
	if (!props.at) return <>–</>;
	return (
		<time dateTime={props.at} title={props.at}>
			{props.relative ? fromNow(props.at) : instant(props.at)}
		</time>
	);
}

export function Lasts(props: { of: string | null | undefined }) {
	return <span class="num">{duration(props.of)}</span>;
}

const STATES: Record<string, string> = {
	running: 'on', starting: 'on', stopping: 'on', ready: 'on',
	completed: 'done', cancelled: 'done',
	scanning: 'on', held: 'on', removed: 'done', passed: 'done', released: 'done', quarantined: 'bad', restricted: 'bad',
	failed: 'bad', timeout: 'bad', unfunded: 'bad', lost: 'bad', suspect: 'bad', gone: 'bad'
};

export function State(props: { of: string }) {
	return <span class={`state ${STATES[props.of] ?? ''}`}>{props.of}</span>;
}

export function Page(props: { title: ComponentChildren; name: string; over?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
	useEffect(() => {
		document.title = `${props.name} – gpucredit`;
	}, [props.name]);
	return (
		<>
			<div class="top">
				{props.over && <p class="over">{props.over}</p>}
				<h1>{props.title}</h1>
				{props.actions && <div class="actions">{props.actions}</div>}
			</div>
			{props.children}
		</>
	);
}

export function Section(props: { title: string; lead?: ComponentChildren; children: ComponentChildren }) {
	const id = useId();

	return (
		<section aria-labelledby={id}>
			<header>
				<h2 id={id}>{props.title}</h2>
				{props.lead && <p>{props.lead}</p>}
			</header>
			{props.children}
		</section>
	);
}

/* What went wrong, and what to do, in the words of whoever refused. */
export function ProblemNote(props: { problem: Problem; again?: () => void }) {
	const { problem } = props;

	return (
		<div class="problem" role="alert">
			<b>
				{problem.message}
				{problem.sqlstate && <small> {problem.sqlstate}</small>}
			</b>
			{problem.detail && <p>{problem.detail}</p>}
			{problem.hint && <p>{problem.hint}</p>}
			{props.again && (
				<button type="button" class="plain" onClick={props.again}>
					Try again
				</button>
			)}
		</div>
	);
}

/* Nothing is there yet: what to do first. */
export function Empty(props: { children: ComponentChildren }) {
	return <div class="empty">{props.children}</div>;
}

/* What is live, once it has come; a problem beside what was known before. */
export function Shown<T>(props: { live: Live<T>; children: (data: T) => ComponentChildren }) {
	const { live } = props;

	return (
		<>
			{live.problem && <ProblemNote problem={live.problem} again={live.again} />}
			{live.data !== undefined ? props.children(live.data) : !live.problem && <p class="loading">Loading…</p>}
		</>
	);
}

export interface Column<T> {
	name: string;
	cell: (row: T) => ComponentChildren;
	number?: boolean;
	picture?: boolean;
	head?: boolean;
}

export function Table<T>(props: { caption: string; columns: Column<T>[]; rows: T[]; id: (row: T) => string | number; foot?: ComponentChildren; shown?: boolean }) {
	const kind = (column: Column<T>) => (column.number ? 'n' : column.picture ? 'picture' : undefined);

	return (
		<div class="scroll">
			<table class="cards">
				<caption class={props.shown ? undefined : 'only-read'}>{props.caption}</caption>
				<thead>
					<tr>
						{props.columns.map((column) => (
							<th scope="col" class={kind(column)} key={column.name}>
								{column.name}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{props.rows.map((row) => (
						<tr key={props.id(row)}>
							{props.columns.map((column) =>
								column.head ? (
									<th scope="row" key={column.name}>
										{column.cell(row)}
									</th>
								) : (
									<td class={kind(column)} data-label={column.name} key={column.name}>
										{column.cell(row)}
									</td>
								)
							)}
						</tr>
					))}
				</tbody>
				{props.foot && <tfoot>{props.foot}</tfoot>}
			</table>
		</div>
	);
}

/* A part of a whole, as length; its numbers stand beside it. */
export function Bar(props: { part: number; soft?: number; mark?: number; whole: number; label: string }) {
	const share = (value: number) => `${Math.max(0, Math.min(100, props.whole > 0 ? (100 * value) / props.whole : 0))}%`;

	return (
		<span class={props.whole > 0 && props.part > props.whole ? 'meter over' : 'meter'} role="img" aria-label={props.label}>
			{props.soft !== undefined && <i class="soft" style={{ width: share(props.part + props.soft) }} />}
			<i style={{ width: share(props.part) }} />
			{props.mark !== undefined && <u style={{ left: share(props.mark) }} />}
		</span>
	);
}

export function Tiles(props: { children: ComponentChildren }) {
	return <dl class="tiles">{props.children}</dl>;
}

export function Tile(props: { name: string; note?: ComponentChildren; children: ComponentChildren }) {
	return (
		<div>
			<dt>{props.name}</dt>
			<dd>{props.children}</dd>
			{props.note && <dd class="note">{props.note}</dd>}
		</div>
	);
}

export function Field(props: { label: string; help?: ComponentChildren; warn?: string; wide?: boolean; children: (id: string) => ComponentChildren }) {
	const id = useId();

	return (
		<div class={props.wide ? 'field wide' : 'field'}>
			<label for={id}>{props.label}</label>
			{props.children(id)}
			{props.warn ? <em class="warn">{props.warn}</em> : props.help && <em>{props.help}</em>}
		</div>
	);
}

/* A form that sends something: it says that it does, and what came of it. */
export function Form(props: { send: () => Promise<ComponentChildren | void>; label: string; danger?: boolean; disabled?: boolean; children?: ComponentChildren; beside?: ComponentChildren }) {
	const [busy, setBusy] = useState(false);
	const [problem, setProblem] = useState<Problem | null>(null);
	const [done, setDone] = useState<ComponentChildren>(null);

	const submitted = async (event: JSX.TargetedSubmitEvent<HTMLFormElement>) => {
		event.preventDefault();
		if (busy) return;
		setBusy(true);
		setProblem(null);
		setDone(null);
		try {
			setDone((await props.send()) ?? null);
		} catch (error) {
			setProblem(error instanceof Problem ? error : new Problem(0, { title: String(error) }));
		}
		setBusy(false);
	};

	return (
		<form onSubmit={submitted}>
			{props.children}
			<div class="outcome" aria-live="polite">
				{problem && <ProblemNote problem={problem} />}
				{done && <div class="success">{done}</div>}
			</div>
			<p class="actions">
				<button type="submit" class={props.danger ? 'danger' : 'main'} disabled={busy || props.disabled}>
					{busy ? 'Sending…' : props.label}
				</button>
				{props.beside}
			</p>
		</form>
	);
}

/* A button that opens a question in front of the page. */
export function Ask(props: { button: string; title: string; class?: string; children: (close: () => void) => ComponentChildren }) {
	const dialog = useRef<HTMLDialogElement>(null);
	const [open, setOpen] = useState(false);
	const id = useId();

	useEffect(() => {
		if (open) dialog.current?.showModal();
		else if (dialog.current?.open) dialog.current.close();
	}, [open]);
	return (
		<>
			<button type="button" class={props.class} onClick={() => setOpen(true)}>
				{props.button}
			</button>
			{open && (
				<dialog ref={dialog} aria-labelledby={id} onClose={() => setOpen(false)}>
					<h2 id={id}>{props.title}</h2>
					{props.children(() => setOpen(false))}
				</dialog>
			)}
		</>
	);
}

export function Chips(props: { label: string; options: { value: string; name: string }[]; value: string; change: (value: string) => void }) {
	return (
		<div class="chips" role="group" aria-label={props.label}>
			{props.options.map((option) => (
				<button type="button" key={option.value} aria-pressed={option.value === props.value} onClick={() => props.change(option.value)}>
					{option.name}
				</button>
			))}
		</div>
	);
}

/* A file of comma-separated values, made here from what the page shows. */
export function download(name: string, head: string[], rows: (string | number | null)[][]): void {
	/* a spreadsheet takes a text that begins so for a formula */
	const cell = (value: string | number | null) => {
		const text = value === null ? '' : String(value);
		const safe = typeof value === 'string' && /^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? `'${text}` : text;

		return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
	};
	const text = [head, ...rows].map((row) => row.map(cell).join(',')).join('\r\n');
	const link = document.createElement('a');

	link.href = URL.createObjectURL(new Blob([text, '\r\n'], { type: 'text/csv' }));
	link.download = name;
	link.click();
	window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
