/*
 * alerts.tsx: what an organisation's owners should know.
 */
import { address } from '../api';
import { credits, dayOf, percent, short } from '../format';
import { useLive } from '../live';
import { Empty, Page, Shown, Table, When } from '../parts';
import { Link, to } from '../route';
import type { Alert, List } from '../rows';

/* An alert as a sentence; its document has the rest. */
export function sentence(one: Alert): string {
	const detail = one.detail;
	const number = (name: string) => short(credits(String(detail[name] ?? '')));

	switch (one.kind) {
		case 'budget':
			return `${percent(credits(one.threshold))} of the budget of ${one.account || one.org} is used.`;
		case 'balance':
			return `Fewer than ${short(credits(one.threshold))} credits are available.`;
		case 'expiry':
			return `Credit expires within ${short(credits(one.threshold))} days${detail.expires_at ? `, on ${dayOf(String(detail.expires_at))}` : ''}.`;
		case 'spend':
			return `${detail.spent ? `${number('spent')} credits were spent that day` : 'The spend of that day was'}, more than ${short(credits(one.threshold))} times the daily average.`;
		case 'uncollected':
			return 'Use was not covered by credit.';
		case 'job':
			if (detail.reason === 'idle') return 'The job leaves its devices idle.';
			return `${detail.reason === 'failed' ? 'The job failed' : `The job ended: ${String(detail.reason ?? detail.job_state).replace(/_/g, ' ')}`}${detail.exit_code == null ? '' : ` with exit code ${detail.exit_code}`}.`;
		default:
			return String(detail.message ?? detail.reason ?? detail.finding ?? one.kind).replace(/_/g, ' ');
	}
}

export function AlertTable(props: { rows: Alert[]; org?: string }) {
	return (
		<Table
			caption="Alerts, newest first"
			columns={[
				{ name: 'Time', cell: (row: Alert) => <When at={row.at} /> },
				...(props.org === undefined ? [{ name: 'Organisation', cell: (row: Alert) => row.org }] : []),
				{ name: 'Account', cell: (row) => row.account || row.org },
				{ name: 'What', head: true, cell: (row) => sentence(row) },
				{ name: 'Kind', cell: (row) => row.kind },
				{
					name: 'Job',
					cell: (row) => (row.detail.job ? <Link href={to(['o', row.org, 'jobs', String(row.detail.job)])}>{String(row.detail.job)}</Link> : '')
				}
			]}
			rows={props.rows}
			id={(row) => `${row.org} ${row.alert}`}
		/>
	);
}

export function AlertsPage(props: { org: string }) {
	const alerts = useLive<List<Alert>>(address('/v1/alerts', { org: props.org, limit: 50 }), 4000);

	return (
		<Page name="Alerts" title="Alerts" over={props.org}>
			<Shown live={alerts}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty>
							<p>There are no alerts. They come when a budget is used by half, when credit expires or runs low, and when a job fails or idles.</p>
						</Empty>
					) : (
						<AlertTable rows={list.data} org={props.org} />
					)
				}
			</Shown>
		</Page>
	);
}
