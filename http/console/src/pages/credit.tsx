/*
 * credit.tsx: an account's credit: what is left, how long it lasts, where it is.
 */
import { useMemo } from 'preact/hooks';
import { address } from '../api';
import { Chart } from '../chart';
import { credits, dayOf, fromNow, micro, moneyText, short } from '../format';
import { useLive } from '../live';
import { Empty, Money, Page, Section, Shown, Table, Tile, Tiles, When, Bar } from '../parts';
import { useRole } from '../role';
import { Link, to } from '../route';
import type { Balance, BalanceAt, Bucket, List, Usage } from '../rows';
import { AccountChoice, useAccount } from './account';

const DAY = 86400;
const AHEAD = 60;

interface Forecast {
	perDay: number;
	/* seconds since 1970, and what is left then */
	points: [number, number][];
	end: number | null;
	lost: number;
}

/*
 * What is left if as much is spent each day as in the last seven: buckets in
 * burn order, each until it expires.
 */
export function forecast(buckets: Bucket[], perDay: number, now: number): Forecast {
	const left = buckets.filter((one) => one.usable).map((one) => ({ amount: credits(one.available), until: one.expires_at ? Date.parse(one.expires_at) / 1000 : Infinity }));
	const points: [number, number][] = [[now, left.reduce((sum, one) => sum + one.amount, 0)]];
	let lost = 0;

	for (let day = 1; day <= AHEAD; day++) {
		const at = now + day * DAY;
		let due = perDay;

		for (const one of left) {
			const drawn = Math.min(one.amount, due);

			one.amount -= drawn;
			due -= drawn;
			if (one.until <= at) {
				lost += one.amount;
				one.amount = 0;
			}
		}
		const rest = left.reduce((sum, one) => sum + one.amount, 0);

		points.push([at, rest]);
		if (rest <= 0) return { perDay, points, end: at - (perDay > 0 ? (due / perDay) * DAY : 0), lost };
	}
	return { perDay, points, end: null, lost };
}

function Burn(props: { past: BalanceAt[]; future: Forecast }) {
	const { past, future } = props;
	const drawn = useMemo(() => {
		const known = past.map((one): [number, number] => [Date.parse(one.at) / 1000, credits(one.available)]);
		const now = future.points[0]?.[0] ?? 0;
		const days = Math.max(10, Math.ceil(((future.end ?? now + 30 * DAY) - now) / DAY) + 1);
		const coming = future.points.slice(0, days);
		const times = [...known.filter(([at]) => at < now).map(([at]) => at), ...coming.map(([at]) => at)];
		const n = times.length - coming.length;

		return {
			times,
			available: times.map((_, i) => (i < n ? (known[i]?.[1] ?? null) : i === n ? (coming[0]?.[1] ?? null) : null)),
			ahead: times.map((_, i) => (i < n ? null : (coming[i - n]?.[1] ?? null)))
		};
	}, [past, future]);

	return (
		<Chart
			times={drawn.times}
			caption="Available credit, and what is left if each day costs as much as the last seven did"
			about={`Available credit over the last two weeks and its forecast; at ${short(future.perDay)} credits a day it ${future.end ? `is used up on ${dayOf(new Date(future.end * 1000).toISOString())}` : 'lasts longer than the picture'}.`}
			lines={[
				{ label: 'available', values: drawn.available, look: 'line' },
				{ label: 'forecast', values: drawn.ahead, look: 'forecast' }
			]}
		/>
	);
}

export function CreditPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const about = { org: props.org, account };
	const balance = useLive<Balance>(address('/v1/balance', about));
	const buckets = useLive<List<Bucket>>(address('/v1/buckets', about), 5000);
	const past = useLive<List<BalanceAt>>(address('/v1/balance/over', about), 30000);
	/* whole days, so that the address stays the same for a day */
	const since = new Date(Math.floor(Date.now() / 86400000 - 7) * 86400000).toISOString();
	const usage = useLive<List<Usage>>(address('/v1/usage', { ...about, since, by: 'day' }), 30000);
	const now = Math.floor(Date.now() / 60000) * 60;
	const perDay = (usage.data?.data ?? []).reduce((sum, one) => sum + credits(one.net), 0) / 7;
	const future = useMemo(() => forecast(buckets.data?.data ?? [], perDay, now), [buckets.data, perDay, now]);
	const open = (buckets.data?.data ?? []).filter((one) => micro(one.available) > 0n || micro(one.held) > 0n);
	const expiring = open.filter((one) => one.expires_at && one.why !== 'expired').sort((a, b) => Date.parse(a.expires_at ?? '') - Date.parse(b.expires_at ?? ''));

	return (
		<Page
			name="Credit"
			title="Credit"
			over={props.org + (account ? ` / ${account}` : '')}
			actions={
				<>
					<AccountChoice org={props.org} />
					{role.may('reserve') && <Link class="button main" href={to(['o', props.org, 'submit'])}>Submit a job</Link>}
				</>
			}
		>
			<Shown live={balance}>
				{(one) => (
					<>
						<Tiles>
							<Tile name="Available" note={<>paid <Money of={one.paid} /></>}>
								<Money of={one.available} />
							</Tile>
							<Tile name="Held for jobs" note={<>used so far <Money of={one.used} /></>}>
								<Money of={one.held} />
							</Tile>
							<Tile name="Lasts" note={future.end ? `until ${dayOf(new Date(future.end * 1000).toISOString())}` : perDay > 0 ? 'at the present rate' : 'nothing was spent in seven days'}>
								{future.end ? fromNow(new Date(future.end * 1000).toISOString()).replace('in ', '') : perDay > 0 ? `over ${AHEAD} days` : '–'}
							</Tile>
							<Tile name="A day costs" note="mean of the last seven">
								<Money of={BigInt(Math.round(perDay * 100)) * 10000n} />
							</Tile>
							<Tile name="Expires next" note={one.next_expiry_at ? <When at={one.next_expiry_at} relative /> : 'nothing expires'}>
								<Money of={one.next_expiry_amount} />
							</Tile>
						</Tiles>
						{micro(one.spendable) < micro(one.available) && (
							<p class="muted">A budget lets you spend {moneyText(micro(one.spendable))} of it.</p>
						)}
					</>
				)}
			</Shown>
			<Section title="Burn" lead={future.lost > 0.01 ? `${short(future.lost)} would expire unused` : undefined}>
				<Shown live={past}>
					{(rows) =>
						rows.data.length > 0 && buckets.data ? (
							<>
								<Burn past={rows.data} future={future} />
								<details>
									<summary>In numbers</summary>
									<Table
										caption="Available credit at the end of each step"
										columns={[
											{ name: 'Time', cell: (row: BalanceAt) => <When at={row.at} /> },
											{ name: 'Available', number: true, cell: (row) => <Money of={row.available} /> }
										]}
										rows={[...rows.data].reverse().slice(0, 60)}
										id={(row) => row.at}
									/>
								</details>
							</>
						) : (
							<Empty>
								<p>No credit moved in the last two weeks.</p>
							</Empty>
						)
					}
				</Shown>
			</Section>
			<Section title="Where it is" lead="in the order in which it is spent">
				<Shown live={buckets}>
					{() =>
						open.length === 0 ? (
							<Empty>
								<p>There is no credit. Jobs are denied until some is issued to {props.org}.</p>
								<p>{role.may('issue') ? <Link href={to(['o', props.org, 'money'])}>Issue credit</Link> : 'Ask whoever sells you credit, and name this organisation.'}</p>
							</Empty>
						) : (
							<Table
								caption="Buckets of credit, in the order in which they are spent"
								columns={[
									{ name: 'Kind', head: true, cell: (row: Bucket) => row.kind },
									{ name: 'Belongs to', cell: (row) => row.account || props.org },
									{ name: 'Available', number: true, cell: (row) => <Money of={row.available} /> },
									{ name: 'Held', number: true, cell: (row) => <Money of={row.held} /> },
									{ name: 'Issued', number: true, cell: (row) => <Money of={row.issued} /> },
									{
										name: 'Used', picture: true,
										cell: (row) => <Bar part={credits(row.spent)} soft={credits(row.held)} whole={credits(row.issued)} label={`${short(credits(row.spent))} spent of ${short(credits(row.issued))}`} />
									},
									{ name: 'Expires', cell: (row) => (row.expires_at ? <>{dayOf(row.expires_at)} <span class="muted">{fromNow(row.expires_at)}</span></> : 'never') },
									{ name: 'Usable', cell: (row) => (row.usable ? 'yes' : (row.why ?? 'no').replace(/_/g, ' ')) }
								]}
								rows={open}
								id={(row) => row.bucket}
							/>
						)
					}
				</Shown>
				{expiring[0] && (
					<p class="muted">
						Next, {moneyText(micro(expiring[0].available))} of bucket {expiring[0].bucket} ({expiring[0].kind}) expires {fromNow(expiring[0].expires_at)}.
					</p>
				)}
			</Section>
		</Page>
	);
}
