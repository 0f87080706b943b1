/*
 * usage.tsx: what an account used, by team, tier, type, job or day.
 */
import { useMemo } from 'preact/hooks';
import { address } from '../api';
import { Chart } from '../chart';
import { credits, micro, short } from '../format';
import { useLive } from '../live';
import { Bar, Chips, download, Empty, Money, Page, Section, Shown, Table } from '../parts';
import { go, Link, to, usePlace } from '../route';
import type { List, Usage } from '../rows';
import { AccountChoice, useAccount, withQuery } from './account';

const BY = [
	{ value: 'account', name: 'Account' },
	{ value: 'tier', name: 'Tier' },
	{ value: 'gpu_type', name: 'GPU type' },
	{ value: 'day', name: 'Day' },
	{ value: 'job', name: 'Job' }
];
const SPANS = [
	{ value: '7', name: '7 days' },
	{ value: '30', name: '30 days' },
	{ value: '90', name: '90 days' }
];

function sinceOf(days: number): string {
	return new Date(Math.floor(Date.now() / 86400000 - days + 1) * 86400000).toISOString();
}

function Days(props: { rows: Usage[]; days: number }) {
	const drawn = useMemo(() => {
		const known = new Map(props.rows.map((one) => [one.item, credits(one.net)]));
		const first = Date.parse(sinceOf(props.days));
		const times = Array.from({ length: props.days }, (_, i) => first / 1000 + i * 86400);

		return { times, values: times.map((at) => known.get(new Date(at * 1000).toISOString().slice(0, 10)) ?? 0) };
	}, [props.rows, props.days]);

	return (
		<Chart
			times={drawn.times}
			caption="Credits a day (UTC)"
			about={`Credits spent a day over ${props.days} days, at most ${short(Math.max(0, ...drawn.values))}; the table by day has the numbers.`}
			lines={[{ label: 'spent', values: drawn.values, look: 'bars' }]}
		/>
	);
}

export function UsagePage(props: { org: string }) {
	const account = useAccount(props.org);
	const place = usePlace();
	const by = place.query.get('by') ?? 'account';
	const days = Number(place.query.get('days') ?? '30') || 30;
	const about = { org: props.org, account, since: sinceOf(days) };
	const usage = useLive<List<Usage>>(address('/v1/usage', { ...about, by }), 5000);
	const daily = useLive<List<Usage>>(address('/v1/usage', { ...about, by: 'day' }), 20000);
	const rows = [...(usage.data?.data ?? [])].sort((a, b) => (by === 'day' ? (b.item ?? '').localeCompare(a.item ?? '') : Number(micro(b.net) - micro(a.net))));
	const most = Math.max(0, ...rows.map((one) => credits(one.net)));
	const total = rows.reduce((sum, one) => sum + micro(one.net), 0n);
	const name = BY.find((one) => one.value === by)?.name ?? 'Item';
	const itemOf = (item: string | null) => (item === null ? 'own holds' : item === '' ? props.org : item.replace(/_/g, ' '));

	return (
		<Page
			name="Usage"
			title="Usage"
			over={props.org + (account ? ` / ${account}` : '')}
			actions={
				<>
					<AccountChoice org={props.org} />
					<button
						type="button"
						disabled={rows.length === 0}
						onClick={() =>
							download(
								`usage-${props.org}-by-${by}.csv`,
								[by, 'spent', 'refunded', 'net', 'gpu_hours', 'jobs'],
								rows.map((one) => [one.item, one.spent, one.refunded, one.net, one.gpu_hours, one.jobs])
							)
						}
					>
						CSV
					</button>
				</>
			}
		>
			<div class="filters">
				<Chips label="By" value={by} options={BY} change={(value) => go(withQuery('by', value), true)} />
				<Chips label="Time" value={String(days)} options={SPANS} change={(value) => go(withQuery('days', value), true)} />
			</div>
			<Shown live={daily}>{(list) => (list.data.length > 0 ? <Days rows={list.data} days={days} /> : null)}</Shown>
			<Section title={`By ${name.replace(/^[A-Z](?=[a-z])/, (c) => c.toLowerCase())}`} lead="running jobs count as far as they were metered">
				<Shown live={usage}>
					{() =>
						rows.length === 0 ? (
							<Empty>
								<p>Nothing was used in this time. <Link href={to(['o', props.org, 'submit'])}>Submit a job</Link>, or choose a longer time.</p>
							</Empty>
						) : (
							<Table
								caption={`Usage by ${name}`}
								columns={[
									{ name, head: true, cell: (row: Usage) => (by === 'job' && row.item ? <Link href={to(['o', props.org, 'jobs', row.item])}>{row.item}</Link> : itemOf(row.item)) },
									{ name: 'Net', number: true, cell: (row) => <Money of={row.net} /> },
									{ name: 'Share', picture: true, cell: (row) => <Bar part={credits(row.net)} whole={most} label={`${short(credits(row.net))} credits`} /> },
									{ name: 'Refunded', number: true, cell: (row) => (micro(row.refunded) === 0n ? '–' : <Money of={row.refunded} />) },
									{ name: 'GPU-hours', number: true, cell: (row) => credits(row.gpu_hours).toFixed(2) },
									{ name: 'Jobs', number: true, cell: (row) => row.jobs.toLocaleString('en') }
								]}
								rows={rows}
								id={(row) => row.item ?? '–'}
								foot={
									<tr>
										<th scope="row">All</th>
										<td class="n" data-label="Net"><Money of={total} /></td>
										<td colSpan={4} />
									</tr>
								}
							/>
						)
					}
				</Shown>
			</Section>
		</Page>
	);
}
