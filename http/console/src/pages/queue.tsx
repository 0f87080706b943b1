/*
 * queue.tsx: what waits, why, and for how long; and who should have what.
 */
import { address } from '../api';
import { credits, duration, fromNow, percent, seconds, short, span } from '../format';
import { useLive } from '../live';
import { Bar, Empty, Page, Section, Shown, Table, When } from '../parts';
import { Link, to } from '../route';
import type { List, QueueRow, Reason, Reservation, Share } from '../rows';
import { PoolChoice, usePool } from './pool';

/* When each reserved device is expected to be handed over, to scale. */
function Reserved(props: { rows: Reservation[] }) {
	const now = Date.now();
	const end = Math.max(...props.rows.map((one) => Date.parse(one.limit_at ?? one.expected_at ?? '') || now), now + 60000);
	const x = (at: string | null) => Math.max(0, Math.min(1000, (1000 * ((Date.parse(at ?? '') || now) - now)) / (end - now)));

	return (
		<Table
			caption="Reservations: the dark line is when the job is expected to start, its end when it starts if all that goes before runs to its wall limit"
			shown
			columns={[
				{ name: 'Job', head: true, cell: (row: Reservation) => <Link href={to(['o', row.org, 'jobs', row.job])}>{row.org} {row.job}</Link> },
				{ name: 'Node', cell: (row) => `${row.node} ${row.gpus}` },
				{
					name: 'Until then', picture: true,
					cell: (row) => (
						<svg class="track" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label={`expected ${fromNow(row.expected_at)}, by wall limits ${fromNow(row.limit_at)}`}>
							<rect class="wait" x="0" y="8" width={x(row.limit_at)} height="8" />
							<rect class="run" x={Math.max(x(row.expected_at) - 4, 0)} y="2" width="8" height="20" />
						</svg>
					)
				},
				{ name: 'Expected', cell: (row) => <When at={row.expected_at} relative /> },
				{ name: 'By limits', cell: (row) => <When at={row.limit_at} relative /> },
				{ name: 'Guaranteed', cell: (row) => <When at={row.latest_at} relative /> }
			]}
			rows={props.rows}
			id={(row) => `${row.org} ${row.job} ${row.node}`}
		/>
	);
}

export function QueuePage() {
	const pool = usePool();
	const queue = useLive<List<QueueRow>>(address('/v1/queue', { pool, most: 60 }), 2000);
	const reasons = useLive<List<Reason>>(address('/v1/queue/reasons', { pool }), 3000);
	const reserved = useLive<List<Reservation>>(address('/v1/reservations', { pool }), 4000);
	const shares = useLive<List<Share>>(address('/v1/fair_share', { pool }), 4000);

	const mostShare = Math.max(0.0001, ...(shares.data?.data ?? []).flatMap((one) => [credits(one.share), credits(one.used)]));

	return (
		<Page name="Queue" title="Queue" over={`Pool ${pool}`} actions={<PoolChoice />}>
			<Section title="Why jobs wait">
				<Shown live={reasons}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>No job waits.</p></Empty>
						) : (
							<Table
								caption="Waiting jobs by reason"
								columns={[
									{ name: 'Reason', head: true, cell: (row: Reason) => row.reason.replace(/_/g, ' ') },
									{ name: 'Tier', cell: (row) => row.tier.replace(/_/g, ' ') },
									{ name: 'Jobs', number: true, cell: (row) => row.jobs },
									{ name: 'Devices', number: true, cell: (row) => short(credits(row.devices)) },
									{ name: 'Longest', number: true, cell: (row) => duration(row.longest) }
								]}
								rows={list.data}
								id={(row) => row.reason + row.tier}
							/>
						)
					}
				</Shown>
			</Section>
			<Section title="Waiting" lead="by expected start; then those whose start is not known, by tier and waiting time">
				<Shown live={queue}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Every job that was submitted runs or is over.</p></Empty>
						) : (
							<Table
								caption="Waiting jobs"
								columns={[
									{ name: 'Job', head: true, cell: (row: QueueRow) => <Link href={to(['o', row.org, 'jobs', row.job])}>{row.org} {row.job}</Link> },
									{ name: 'Account', cell: (row) => row.account || row.org },
									{ name: 'Request', cell: (row) => row.request },
									{ name: 'Tier', cell: (row) => row.tier.replace(/_/g, ' ') },
									{ name: 'Waits', number: true, cell: (row) => span(seconds(row.waits)) },
									{ name: 'Reason', cell: (row) => row.reason },
									{ name: 'Expected', cell: (row) => <When at={row.expected_at} relative /> }
								]}
								rows={list.data}
								id={(row) => `${row.org} ${row.job}`}
							/>
						)
					}
				</Shown>
			</Section>
			<Section title="Reservations" lead="devices that are kept for jobs that cannot start yet">
				<Shown live={reserved}>
					{(list) => (list.data.length === 0 ? <Empty><p>Nothing is reserved.</p></Empty> : <Reserved rows={list.data} />)}
				</Shown>
			</Section>
			<Section title="Fair share" lead="what is due by weights, beside what was used">
				<Shown live={shares}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Nobody has used the pool yet.</p></Empty>
						) : (
							<Table
								caption="Fair share by account"
								columns={[
									{ name: 'Account', head: true, cell: (row: Share) => (row.account ? `${row.org} / ${row.account}` : row.org) },
									{ name: 'Due', number: true, cell: (row) => percent(credits(row.share)) },
									{ name: 'Used', number: true, cell: (row) => percent(credits(row.used)) },
									{ name: 'Used, and a mark where it is due', picture: true, cell: (row) => <Bar part={credits(row.used)} mark={credits(row.share)} whole={mostShare} label={`${percent(credits(row.used))} used, ${percent(credits(row.share))} due`} /> },
									{ name: 'Devices now', number: true, cell: (row) => short(credits(row.live)) },
									{ name: 'Weight', number: true, cell: (row) => short(credits(row.weight)) },
									{ name: 'Turn', number: true, cell: (row) => row.rank }
								]}
								rows={list.data}
								id={(row) => `${row.org} ${row.account}`}
							/>
						)
					}
				</Shown>
			</Section>
		</Page>
	);
}
