/*
 * cluster.tsx: the devices of a pool, and who has them.
 */
import { address } from '../api';
import { credits, fromNow, percent, short } from '../format';
import { useLive } from '../live';
import { Bar, Empty, Page, Section, Shown, State, Table, Tile, Tiles, When } from '../parts';
import { Link, to } from '../route';
import type { Capacity, Device, List, Node, Recent } from '../rows';
import { PoolChoice, usePool } from './pool';

/* Four looks are told apart; the name stands on each device anyway. */
function lookOf(org: string, all: string[]): string {
	return `c${all.indexOf(org) % 4}`;
}

function OneDevice(props: { rows: Device[]; orgs: string[] }) {
	const [one] = props.rows;

	if (!one) return null;
	const shares = props.rows.filter((row) => row.org !== null);

	if (!one.healthy) return <span class="device broken" title={`GPU ${one.gpu}: not healthy`}><b>{one.gpu}</b>broken</span>;
	if (!one.org) return <span class="device" title={`GPU ${one.gpu}: free`}>{one.gpu}<br />free</span>;
	const words = shares.map((row) => `${row.org} job ${row.job}${row.share && row.share < 1000 ? `, ${percent(row.share / 1000)} of it` : ''}${row.fenced ? ', over but not seen gone' : ''}`).join('; ');

	return (
		<Link class={`device used ${lookOf(one.org, props.orgs)}${one.fenced ? ' fenced' : ''}`} href={to(['o', one.org, 'jobs', one.job ?? 0])} label={`GPU ${one.gpu}: ${words}`}>
			<b>{one.org}</b>
			{shares.length > 1 ? `${shares.length} shares` : one.share && one.share < 1000 ? percent(one.share / 1000) : `job ${one.job}`}
		</Link>
	);
}

export function ClusterPage() {
	const pool = usePool();
	const nodes = useLive<List<Node>>(address('/v1/nodes', { pool }), 3000);
	const devices = useLive<List<Device>>(address('/v1/devices', { pool }), 2000);
	const capacity = useLive<List<Capacity>>(address('/v1/capacity/now', { pool }), 3000);
	const recent = useLive<List<Recent>>(address('/v1/recent', { span: 'PT10M' }), 4000);
	const orgs = [...new Set((devices.data?.data ?? []).flatMap((one) => (one.org ? [one.org] : [])))].sort();
	const sum = (of: (one: Capacity) => number) => (capacity.data?.data ?? []).reduce((total, one) => total + of(one), 0);
	const inService = sum((one) => one.in_service);
	const allocated = sum((one) => credits(one.allocated));

	return (
		<Page name="Cluster" title="Cluster" over={`Pool ${pool}`} actions={<PoolChoice />}>
			<Shown live={capacity}>
				{() => (
					<Tiles>
						<Tile name="Devices in service" note={`on ${sum((one) => one.nodes)} nodes`}>{inService}</Tile>
						<Tile name="Allocated" note={inService > 0 ? percent(allocated / inService) : undefined}>{short(allocated)}</Tile>
						<Tile name="Free">{sum((one) => one.free)}</Tile>
						<Tile name="Stranded" note="free, without cpu or memory for them">{sum((one) => one.stranded)}</Tile>
					</Tiles>
				)}
			</Shown>
			<Section title="Devices" lead="each with who has it; choose one to see its job">
				<Shown live={nodes}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty>
								<p>The pool has no nodes. Start an agent on one: <code>gpucredit-agent</code>, after <code>register_node()</code>.</p>
							</Empty>
						) : (
							<>
								<div class="nodes">
									{list.data.map((node) => (
										<div class="node" key={node.node}>
											<h3>
												{node.node}
												<span>{node.gpus} × {node.gpu_type}{node.spot ? ', spot' : ''} <State of={node.state} /></span>
											</h3>
											<ul aria-label={`Devices of ${node.node}`}>
												{Array.from({ length: node.gpus }, (_, gpu) => (
													<li key={gpu}>
														<OneDevice orgs={orgs} rows={(devices.data?.data ?? []).filter((one) => one.node === node.node && one.gpu === gpu)} />
													</li>
												))}
											</ul>
										</div>
									))}
								</div>
								<ul class="key">
									{orgs.map((org) => (
										<li key={org}><i class={`device ${lookOf(org, orgs)}`} />{org}</li>
									))}
									<li><i class="device" />free</li>
									<li><i class="device broken" />broken</li>
								</ul>
							</>
						)
					}
				</Shown>
			</Section>
			<div class="two">
				<Section title="By type">
					<Shown live={capacity}>
						{(list) => (
							<Table
								caption="Devices by type"
								columns={[
									{ name: 'Type', head: true, cell: (row: Capacity) => row.gpu_type + (row.spot ? ' (spot)' : '') },
									{ name: 'In service', number: true, cell: (row) => row.in_service },
									{ name: 'Allocated', number: true, cell: (row) => short(credits(row.allocated)) },
									{ name: 'Busy', picture: true, cell: (row) => <Bar part={credits(row.allocated)} whole={row.in_service} label={`${row.allocated} of ${row.in_service}`} /> },
									{ name: 'Free', number: true, cell: (row) => row.free }
								]}
								rows={list.data}
								id={(row) => row.gpu_type + row.spot}
							/>
						)}
					</Shown>
				</Section>
				<Section title="Lately" lead="what the scheduler did in ten minutes">
					<Shown live={recent}>
						{(list) =>
							list.data.length === 0 ? (
								<Empty><p>Nothing happened in ten minutes.</p></Empty>
							) : (
								<Table
									caption="Decisions of the last ten minutes"
									columns={[
										{ name: 'What', head: true, cell: (row: Recent) => row.what.replace(/_/g, ' ') },
										{ name: 'Why', cell: (row) => (row.reason ?? '').replace(/_/g, ' ') },
										{ name: 'Times', number: true, cell: (row) => row.times },
										{ name: 'Last', cell: (row) => <time dateTime={row.latest}>{fromNow(row.latest)}</time> },
										{ name: 'Job', cell: (row) => (row.org && row.job ? <Link href={to(['o', row.org, 'jobs', row.job])}>{row.org} {row.job}</Link> : '') }
									]}
									rows={list.data}
									id={(row) => `${row.what} ${row.reason}`}
								/>
							)
						}
					</Shown>
				</Section>
			</div>
			<p class="muted">Silent nodes: {(nodes.data?.data ?? []).filter((one) => one.state !== 'ready').map((one) => <span key={one.node}>{one.node} ({one.state}, heard <When at={one.heard_at} relative />) </span>)}{(nodes.data?.data ?? []).every((one) => one.state === 'ready') && 'none.'}</p>
		</Page>
	);
}
