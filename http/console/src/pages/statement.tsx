/*
 * statement.tsx: every movement of credit, and what a month comes to.
 */
import { useState } from 'preact/hooks';
import { address } from '../api';
import { credits, micro, minuteOf, shortDay } from '../format';
import { useLive } from '../live';
import { download, Empty, Field, Money, Page, Section, Shown, Table } from '../parts';
import { useRole } from '../role';
import { go, Link, to, usePlace } from '../route';
import type { Entry, InvoiceLine, List } from '../rows';
import { AccountChoice, useAccount, withQuery } from './account';

const STEP = 50;

export function StatementPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const place = usePlace();
	const [shown, setShown] = useState(STEP);
	const month = place.query.get('month') ?? new Date().toISOString().slice(0, 7);
	const since = `${month}-01T00:00:00Z`;
	const next = new Date(since);

	next.setUTCMonth(next.getUTCMonth() + 1);
	const statement = useLive<List<Entry>>(address('/v1/statement', { org: props.org, account, since, until: next.toISOString() }), 10000);
	const invoice = useLive<List<InvoiceLine>>(role.may('invoice') ? address(`/v1/invoices/${month}-01`, { org: props.org }) : null, 10000);
	const entries = [...(statement.data?.data ?? [])].reverse();
	const lines = invoice.data?.data ?? [];
	const total = lines.reduce((sum, one) => sum + micro(one.amount), 0n);

	return (
		<Page
			name="Statement"
			title="Statement"
			over={props.org + (account ? ` / ${account}` : '')}
			actions={<AccountChoice org={props.org} />}
		>
			<div class="filters">
				<Field label="Month (UTC)">
					{(id) => <input id={id} type="month" value={month} onChange={(event) => /^\d{4}-\d\d$/.test(event.currentTarget.value) && go(withQuery('month', event.currentTarget.value), true)} />}
				</Field>
			</div>
			{role.may('invoice') && (
				<Section title="What the month comes to" lead={<>of {props.org}, a line for each account, tier, type and price</>}>
					<Shown live={invoice}>
						{() =>
							lines.length === 0 ? (
								<Empty><p>Nothing was used in this month. Its lines appear with the first job that runs.</p></Empty>
							) : (
								<>
									<Table
										caption="Lines of the month"
										columns={[
											{ name: 'Account', head: true, cell: (row: InvoiceLine) => row.account || props.org },
											{ name: 'Tier', cell: (row) => row.tier?.replace(/_/g, ' ') ?? 'own holds' },
											{ name: 'GPU type', cell: (row) => row.gpu_type ?? '–' },
											{ name: 'Price an hour', number: true, cell: (row) => <Money of={row.per_gpu_hour} /> },
											{ name: 'GPU-hours', number: true, cell: (row) => credits(row.gpu_hours).toFixed(2) },
											{ name: 'Jobs', number: true, cell: (row) => row.jobs },
											{ name: 'Amount', number: true, cell: (row) => <Money of={row.amount} /> }
										]}
										rows={lines}
										id={(row) => row.line}
										foot={<tr><th scope="row" colSpan={6}>All</th><td class="n"><Money of={total} /></td></tr>}
									/>
									<p>
										<button
											type="button"
											onClick={() =>
												download(
													`invoice-${props.org}-${month}.csv`,
													['line', 'account', 'tier', 'gpu_type', 'jobs', 'gpu_hours', 'per_gpu_hour', 'spent', 'refunded', 'amount'],
													lines.map((one) => [one.line, one.account, one.tier, one.gpu_type, one.jobs, one.gpu_hours, one.per_gpu_hour, one.spent, one.refunded, one.amount])
												)
											}
										>
											CSV of the month
										</button>
									</p>
								</>
							)
						}
					</Shown>
				</Section>
			)}
			<Section title="Entries" lead="nobody can change them; the newest first">
				<Shown live={statement}>
					{(list) =>
						entries.length === 0 ? (
							<Empty><p>No credit moved in this month.</p></Empty>
						) : (
							<>
								<Table
									caption="Movements of credit"
									columns={[
										{ name: 'Time', cell: (row: Entry) => `${shortDay(Date.parse(row.at))} ${minuteOf(Date.parse(row.at))}` },
										{ name: 'Operation', head: true, cell: (row) => row.operation.replace(/_/g, ' ') },
										{ name: 'From', cell: (row) => row.source },
										{ name: 'To', cell: (row) => row.target },
										{ name: 'Account', cell: (row) => (row.account === null ? 'another\'s' : row.account || props.org) },
										{ name: 'Job', cell: (row) => (row.job ? <Link href={to(['o', props.org, 'jobs', row.job])}>{row.job}</Link> : '') },
										{ name: 'Amount', number: true, cell: (row) => <Money of={row.amount} /> },
										{ name: 'Available', number: true, cell: (row) => <Money of={row.available} /> }
									]}
									rows={entries.slice(0, shown)}
									id={(row) => `${row.entry} ${row.bucket} ${row.at} ${row.operation}`}
								/>
								{list.truncated && (
									<Empty>
										<p>
											The month has more entries than a page is sent. These, and their CSV, are its first {entries.length.toLocaleString('en')}: the later ones are missing.
											<code>gpucredit.statement()</code> has all of them.
										</p>
									</Empty>
								)}
								<p class="actions">
									<span class="muted">
										{Math.min(entries.length, shown).toLocaleString('en')} of {entries.length.toLocaleString('en')}{list.truncated ? ' and more' : ''} entries.
									</span>
									{entries.length > shown && <button type="button" onClick={() => setShown(shown * 2)}>Show more</button>}
									<button
										type="button"
										onClick={() =>
											download(
												`statement-${props.org}-${month}.csv`,
												['at', 'entry', 'bucket', 'account', 'operation', 'source', 'target', 'amount', 'job', 'available'],
												[...entries].reverse().map((one) => [one.at, one.entry, one.bucket, one.account, one.operation, one.source, one.target, one.amount, one.job, one.available])
											)
										}
									>
										CSV of the entries
									</button>
								</p>
							</>
						)
					}
				</Shown>
			</Section>
		</Page>
	);
}
