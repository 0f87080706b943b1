/*
 * nodes.tsx: the nodes: drain one, let it work again.
 */
import { useState } from 'preact/hooks';
import { address, request } from '../api';
import { countSet } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, Empty, Field, Form, Page, Shown, State, Table, When } from '../parts';
import { useRole } from '../role';
import type { List, Node } from '../rows';
import { PoolChoice, usePool } from './pool';

function Drain(props: { node: Node }) {
	const [reason, setReason] = useState('');
	const [hours, setHours] = useState('');

	return (
		<Ask button="Drain" title={`Drain node ${props.node.node}?`}>
			{(close) => (
				<Form
					label="Drain"
					disabled={reason.trim() === ''}
					send={async () => {
						await request('POST', `/v1/nodes/${encodeURIComponent(props.node.node)}/drain`, {
							reason,
							...(hours ? { deadline: new Date(Date.now() + Number(hours) * 3600000).toISOString() } : {})
						});
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Leave it</button>}
				>
					<p>No job starts there any more. With a deadline, what runs there is told to save and leave by then.</p>
					<Field label="Reason" help="People read it on this page.">{(id) => <input id={id} required value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}</Field>
					<Field label="Hours until it must be empty" help="Leave it empty to let jobs run to their end.">{(id) => <input id={id} type="number" min="0" step="any" value={hours} onInput={(event) => setHours(event.currentTarget.value)} />}</Field>
				</Form>
			)}
		</Ask>
	);
}

function Resume(props: { node: Node }) {
	return (
		<Ask button="Resume" title={`Let node ${props.node.node} work again?`}>
			{(close) => (
				<Form
					label="Resume"
					send={async () => {
						await request('POST', `/v1/nodes/${encodeURIComponent(props.node.node)}/resume`, {});
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Leave it</button>}
				>
					<p>Jobs start there again. It was drained for: {props.node.reason ?? 'no reason given'}.</p>
				</Form>
			)}
		</Ask>
	);
}

export function NodesPage() {
	const role = useRole();
	const pool = usePool();
	const nodes = useLive<List<Node>>(address('/v1/nodes', { pool }), 2000);

	return (
		<Page name="Nodes" title="Nodes" over={`Pool ${pool}`} actions={<PoolChoice />}>
			<Shown live={nodes}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>The pool has no nodes. <code>gpucredit.register_node()</code> adds one, and its agent reports that it is there.</p></Empty>
					) : (
						<Table
							caption="Nodes of the pool"
							columns={[
								{ name: 'Node', head: true, cell: (row: Node) => row.node },
								{ name: 'State', cell: (row) => <State of={row.state} /> },
								{ name: 'Devices', cell: (row) => `${row.gpus} × ${row.gpu_type}${row.spot ? ', spot' : ''}` },
								{ name: 'Healthy devices', cell: (row) => (countSet(row.healthy) === row.gpus ? 'all' : <span class="warn">{countSet(row.healthy)} of {row.gpus}: {row.healthy}</span>) },
								{ name: 'Last heartbeat', cell: (row) => <When at={row.heard_at} relative /> },
								{ name: 'Why', cell: (row) => row.reason || row.deadline ? <>{row.reason}{row.deadline && <span class="muted"> must be empty <When at={row.deadline} relative /></span>}</> : '' },
								...(role.may('drain', 'resume')
									? [{ name: 'Change', cell: (row: Node) => (row.state === 'draining' ? <Resume node={row} /> : <Drain node={row} />) }]
									: [])
							]}
							rows={list.data}
							id={(row) => row.node}
						/>
					)
				}
			</Shown>
		</Page>
	);
}
