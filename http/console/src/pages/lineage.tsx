/*
 * lineage.tsx: what a version was made from, and what was made from it: as a
 * picture, and as a list that says the same.
 */
import { useEffect, useRef } from 'preact/hooks';
import { go, Link } from '../route';
import { Empty, Shown, State, Table, When } from '../parts';
import { address } from '../api';
import { useLive } from '../live';
import { useRole } from '../role';
import type { List, Relative } from '../rows';
import { toModel } from './models';

/* how many are asked for in each direction, and how many of a column are drawn */
const MOST = 200;
const ROWS = 7;
const WIDTH = 176;
const HEIGHT = 40;
const ACROSS = 232;
const DOWN = 54;

const MADE: Record<string, string> = { fine_tune: 'fine-tune', adapter: 'adapter', quantized: 'quantized', merge: 'merge' };

export function made(kinds: string[]): string {
	return [...new Set(kinds)].map((one) => MADE[one] ?? one).join(', ');
}

function steps(depth: number): string {
	const n = Math.abs(depth);

	return depth === 0 ? 'this version' : `${n} step${n === 1 ? '' : 's'} ${depth < 0 ? 'above' : 'below'}`;
}

function cut(text: string, length: number): string {
	return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

interface Placed {
	row: Relative;
	x: number;
	y: number;
}

/* Columns by depth; of each the first few, each beside the middle of its parents. */
function layout(rows: Relative[]): { placed: Map<number, Placed>; rest: { x: number; y: number; n: number }[]; width: number; height: number } {
	const depths = [...new Set(rows.map((one) => one.depth))].sort((a, b) => a - b);
	const placed = new Map<number, Placed>();
	const rest: { x: number; y: number; n: number }[] = [];
	const columns = depths.map((depth) => rows.filter((one) => one.depth === depth));
	const most = Math.max(...columns.map((one) => Math.min(one.length, ROWS) + (one.length > ROWS ? 1 : 0)));
	const height = most * DOWN;

	columns.forEach((column, c) => {
		const middle = (row: Relative) => {
			const at = row.parents.map((one) => placed.get(one)?.y).filter((one): one is number => one !== undefined);

			return at.length === 0 ? 0 : at.reduce((sum, one) => sum + one, 0) / at.length;
		};
		const shown = [...column].sort((a, b) => middle(a) - middle(b) || a.related - b.related).slice(0, ROWS);
		const slots = shown.length + (column.length > ROWS ? 1 : 0);
		const top = (height - slots * DOWN) / 2;

		shown.forEach((row, i) => placed.set(row.related, { row, x: c * ACROSS, y: top + i * DOWN + (DOWN - HEIGHT) / 2 }));
		if (column.length > ROWS) rest.push({ x: c * ACROSS, y: top + ROWS * DOWN + DOWN / 2, n: column.length - ROWS });
	});
	return { placed, rest, width: (depths.length - 1) * ACROSS + WIDTH, height };
}

function Graph(props: { rows: Relative[]; reader?: string }) {
	const { placed, rest, width, height } = layout(props.rows);
	const above = props.rows.filter((one) => one.depth < 0).length;
	const below = props.rows.filter((one) => one.depth > 0).length;
	const here = props.rows.find((one) => one.depth === 0);
	const box = useRef<HTMLDivElement>(null);
	const middle = placed.get(here?.related ?? 0)?.x ?? 0;
	const place = (row: Relative) => toModel(props.reader ?? row.model_org, row.model_org, row.name, row.kind, 'lineage', { rev: row.oid });

	/* where the picture is wider than the page, the version that it is about is in sight */
	useEffect(() => {
		if (box.current) box.current.scrollLeft = middle - (box.current.clientWidth - WIDTH) / 2;
	}, [here?.related, middle]);
	return (
		<figure>
			<figcaption><span>From what it was made from, at the left, to what was made from it</span></figcaption>
			<div class="graph" ref={box} tabIndex={0} role="group" aria-label="Picture of the lineage, which may be wider than the page">
				<svg width={width + 2} height={height} viewBox={`-1 0 ${width + 2} ${height}`} role="img" aria-label={`${here?.model_org}/${here?.name}: ${above} above it and ${below} below it. The list under the picture has the same.`}>
					{[...placed.values()].flatMap(({ row, x, y }) =>
						row.parents.map((parent) => {
							const from = placed.get(parent);

							if (!from) return null;
							const [x1, y1, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, y + HEIGHT / 2];

							return <path key={`${parent} ${row.related}`} class="edge" d={`M${x1} ${y1}C${x1 + 28} ${y1} ${x - 28} ${y2} ${x} ${y2}`} />;
						})
					)}
					{[...placed.values()].map(({ row, x, y }) => (
						<g key={row.related} class={`vertex ${row.depth === 0 ? 'here' : ''} ${row.state === 'quarantined' || row.state === 'restricted' ? 'bad' : ''} ${row.deleted ? 'gone' : ''}`} transform={`translate(${x} ${y})`} onClick={() => row.depth !== 0 && !row.deleted && go(place(row))}>
							<title>{`${row.model_org}/${row.name} ${row.oid.slice(0, 10)}, ${row.state}`}</title>
							<rect width={WIDTH} height={HEIGHT} rx={3} />
							<text x={10} y={17}>{cut(`${row.model_org}/${row.name}`, 24)}</text>
							<text x={10} y={32} class="small">{cut(row.state === 'ready' || row.state === 'scanning' ? made(row.made) || row.oid.slice(0, 10) : row.state, 28)}</text>
						</g>
					))}
					{rest.map((one) => <text key={one.x} class="small" x={one.x + 10} y={one.y}>{`and ${one.n} more in the list`}</text>)}
				</svg>
			</div>
		</figure>
	);
}

export function Lineage(props: { reader: string; account: string; version: number }) {
	/* operators and auditors see all, each as its own organisation does */
	const all = useRole().may('registry.all_lineage_graph');
	const reader = all ? undefined : props.reader;
	const path = `/v1/registry/versions/${props.version}/lineage`;
	const graph = useLive<List<Relative>>(all ? address(`${path}/all`, { limit: MOST }) : address(path, { org: props.reader, account: props.account, limit: MOST }), 15000);

	return (
		<Shown live={graph}>
			{(list) => {
				const rows = list.data;

				if (rows.length < 2)
					return (
						<Empty>
							<p>Nothing is known above or below this version.</p>
							<p>A card's <code>base_model</code> says what a model was made from; so does <code>gpucredit_registry.add_parent()</code>.</p>
						</Empty>
					);
				const names = new Map(rows.map((one) => [one.related, one.name]));

				return (
					<>
						<Graph rows={rows} reader={reader} />
						{rows.some((one) => one.more) && <p class="muted">There are more than {MOST} in one direction; these are the nearest.</p>}
						<Table
							caption="The lineage as a list"
							columns={[
								{
									name: 'Repository', head: true,
									cell: (row: Relative) =>
										row.deleted ? `${row.model_org}/${row.name}` : <Link href={toModel(reader ?? row.model_org, row.model_org, row.name, row.kind, 'lineage', { rev: row.oid })} current={row.depth === 0}>{row.model_org}/{row.name}</Link>
								},
								{ name: 'Where', cell: (row) => steps(row.depth) },
								{ name: 'Version', cell: (row) => <code>{row.oid.slice(0, 10)}</code> },
								{ name: 'Made as', cell: (row) => (row.parents.length === 0 ? '–' : `${made(row.made)} of ${row.parents.map((one) => names.get(one)).join(', ')}`) },
								{ name: 'State', cell: (row) => (row.deleted ? <span class="muted">deleted</span> : <State of={row.state} />) },
								{ name: 'Made', cell: (row) => <When at={row.created_at} relative /> }
							]}
							rows={rows}
							id={(row) => row.related}
						/>
					</>
				);
			}}
		</Shown>
	);
}
