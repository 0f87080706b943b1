/*
 * books.tsx: use that no credit covered, credit that expires, and who runs out.
 */
import { useState } from 'preact/hooks';
import { address, newKey, request } from '../api';
import { credits, dayOf, fromNow, micro, moneyText, short } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, Bar, Chips, Empty, Field, Form, Money, Page, Section, Shown, Table, When } from '../parts';
import { useRole } from '../role';
import { go, Link, to, usePlace } from '../route';
import type { Burn, Debt, Expiring, List } from '../rows';
import { withQuery } from './account';

function WriteOff(props: { debt: Debt }) {
	const [key] = useState(newKey);
	const [reason, setReason] = useState('');

	return (
		<Ask button="Write off" title={`Forgive ${props.debt.org} ${moneyText(micro(props.debt.owed))}?`} class="plain">
			{(close) => (
				<Form
					label="Write off"
					danger
					disabled={reason.trim() === ''}
					send={async () => {
						await request('POST', '/v1/debts/write_off', { org: props.debt.org, account: props.debt.account, reason: reason.trim() }, key);
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Keep it</button>}
				>
					<Field label="Reason" help="for the audit log">{(id) => <input id={id} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}</Field>
				</Form>
			)}
		</Ask>
	);
}

export function BooksPage() {
	const role = useRole();
	const days = usePlace().query.get('days') ?? '30';
	const debts = useLive<List<Debt>>('/v1/debts', 10000);
	const expiring = useLive<List<Expiring>>(address('/v1/expiring', { within: `P${days}D` }), 10000);
	const burn = useLive<List<Burn>>(address('/v1/burn', { most: 20 }), 15000);
	const most = Math.max(1, ...(burn.data?.data ?? []).map((one) => credits(one.days_left)));

	return (
		<Page name="Owed and expiring" title="Owed and expiring">
			<Section title="Uncollected" lead="use that no credit covered">
				<Shown live={debts}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Nobody owes anything: all use was covered by credit.</p></Empty>
						) : (
							<Table
								caption="Debts, the largest first"
								columns={[
									{ name: 'Organisation', head: true, cell: (row: Debt) => <Link href={to(['o', row.org, 'credit'])}>{row.org}</Link> },
									{ name: 'Account', cell: (row) => row.account || row.org },
									{ name: 'Owes', number: true, cell: (row) => <Money of={row.owed} /> },
									{ name: 'Since', cell: (row) => <When at={row.since} /> },
									...(role.may('write_off') ? [{ name: 'Change', cell: (row: Debt) => <WriteOff debt={row} /> }] : [])
								]}
								rows={list.data}
								id={(row) => `${row.org} ${row.account}`}
							/>
						)
					}
				</Shown>
			</Section>
			<Section title="Expiring credit">
				<div class="filters">
					<Chips label="Time" value={days} change={(value) => go(withQuery('days', value), true)} options={[{ value: '7', name: '7 days' }, { value: '30', name: '30 days' }, { value: '90', name: '90 days' }]} />
				</div>
				<Shown live={expiring}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>No credit expires within {days} days.</p></Empty>
						) : (
							<Table
								caption="Credit that expires, the soonest first"
								columns={[
									{ name: 'Organisation', head: true, cell: (row: Expiring) => <Link href={to(['o', row.org, 'credit'])}>{row.org}</Link> },
									{ name: 'Account', cell: (row) => row.account || row.org },
									{ name: 'Kind', cell: (row) => row.kind },
									{ name: 'Unused', number: true, cell: (row) => <Money of={row.available} /> },
									{ name: 'Held', number: true, cell: (row) => <Money of={row.held} /> },
									{ name: 'Expires', cell: (row) => <>{dayOf(row.expires_at)} <span class="muted">{fromNow(row.expires_at)}</span></> }
								]}
								rows={list.data}
								id={(row) => `${row.org} ${row.bucket}`}
							/>
						)
					}
				</Shown>
			</Section>
			<Section title="Who runs out first" lead="at the rate of the last seven days">
				<Shown live={burn}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Nobody has credit yet.</p></Empty>
						) : (
							<Table
								caption="Organisations by days left"
								columns={[
									{ name: 'Organisation', head: true, cell: (row: Burn) => <Link href={to(['o', row.org, 'credit'])}>{row.org}</Link> },
									{ name: 'Available', number: true, cell: (row) => <Money of={row.available} /> },
									{ name: 'A day', number: true, cell: (row) => short(credits(row.per_day)) },
									{ name: 'Days left', number: true, cell: (row) => (row.days_left === null ? 'years' : short(credits(row.days_left))) },
									{ name: 'To scale', picture: true, cell: (row) => (row.days_left === null ? '' : <Bar part={credits(row.days_left)} whole={most} label={`${short(credits(row.days_left))} days`} />) },
									{ name: 'Runs out', cell: (row) => (row.runs_out ? dayOf(row.runs_out) : '–') }
								]}
								rows={list.data}
								id={(row) => row.org}
							/>
						)
					}
				</Shown>
			</Section>
		</Page>
	);
}
