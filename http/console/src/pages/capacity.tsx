/*
 * capacity.tsx: what a pool has and what is wanted of it, and what to buy.
 */
import { useMemo } from 'preact/hooks';
import { address } from '../api';
import { Chart } from '../chart';
import { credits, seconds, short } from '../format';
import { useLive } from '../live';
import { Bar, Chips, Empty, Money, Page, Section, Shown, Table, When } from '../parts';
import { go, usePlace } from '../route';
import type { Advice, DemandStep, List } from '../rows';
import { withQuery } from './account';
import { PoolChoice, usePool } from './pool';

const WORDS: Record<string, string> = { buy: 'buy', feed: 'add cpu or memory for', release: 'release', keep: 'keep as it is', unknown: 'not enough history' };

function OneType(props: { type: string; rows: DemandStep[]; step: string }) {
	const drawn = useMemo(() => {
		const rows = props.rows.filter((one) => one.gpu_type === props.type);

		const last = rows[rows.length - 1];

		/* the last step is as wide as it has lasted */
		if (last) rows.push({ ...last, since: new Date(Math.min(Date.now(), Date.parse(last.since) + 1000 * seconds(props.step))).toISOString() });
		return {
			times: rows.map((one) => Date.parse(one.since) / 1000),
			supply: rows.map((one) => credits(one.supply)),
			allocated: rows.map((one) => credits(one.allocated)),
			demand: rows.map((one) => credits(one.demand))
		};
	}, [props.rows, props.type, props.step]);

	return (
		<Chart
			times={drawn.times}
			caption={`${props.type}: devices on average in each step`}
			about={`Supply, use and demand of ${props.type} over time; the last step had ${short(drawn.supply[drawn.supply.length - 1] ?? 0)} devices and a demand for ${short(drawn.demand[drawn.demand.length - 1] ?? 0)}.`}
			lines={[
				{ label: 'allocated', values: drawn.allocated, look: 'area' },
				{ label: 'wanted', values: drawn.demand, look: 'line' },
				{ label: 'there', values: drawn.supply, look: 'quiet' }
			]}
		/>
	);
}

export function CapacityPage() {
	const pool = usePool();
	const days = usePlace().query.get('days') ?? '1';
	const step = days === '1' ? 'PT30M' : days === '7' ? 'PT3H' : 'PT12H';
	const since = new Date(Math.floor(Date.now() / 1800000) * 1800000 - Number(days) * 86400000).toISOString();
	const advice = useLive<List<Advice>>(address('/v1/capacity', { pool, period: `P${days}D` }), 10000);
	const demand = useLive<List<DemandStep>>(address('/v1/demand', { pool, since, step }), 20000);
	const types = [...new Set((demand.data?.data ?? []).map((one) => one.gpu_type))].sort();

	return (
		<Page name="Capacity" title="Capacity" over={`Pool ${pool}`} actions={<PoolChoice />}>
			<div class="filters">
				<Chips label="Time" value={days} change={(value) => go(withQuery('days', value), true)} options={[{ value: '1', name: '1 day' }, { value: '7', name: '7 days' }, { value: '30', name: '30 days' }]} />
			</div>
			<Section title="Advice" lead="so that the load, by what ran, stays within 70 to 90 % of the supply">
				<Shown live={advice}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>The pool has no devices yet. Register nodes first.</p></Empty>
						) : (
							<Table
								caption="Advice by type"
								columns={[
									{ name: 'Type', head: true, cell: (row: Advice) => row.gpu_type },
									{ name: 'There', number: true, cell: (row) => short(credits(row.supply)) },
									{ name: 'Allocated', number: true, cell: (row) => short(credits(row.allocated)) },
									{ name: 'Waiting', number: true, cell: (row) => short(credits(row.waiting)) },
									{ name: 'Demand', picture: true, cell: (row) => <Bar part={credits(row.allocated)} soft={credits(row.waiting)} whole={Math.max(credits(row.supply), credits(row.allocated) + credits(row.waiting))} label={`${row.demand_percent ?? 0} % of the supply is wanted`} /> },
									{ name: 'Stranded', number: true, cell: (row) => row.stranded },
									{ name: 'Advice', cell: (row) => <b>{row.devices === 0 ? WORDS[row.advice] ?? row.advice : `${WORDS[row.advice] ?? row.advice} ${row.devices}`}</b> },
									{ name: 'Worth in the time', number: true, cell: (row) => <Money of={row.cost} /> }
								]}
								rows={list.data}
								id={(row) => row.gpu_type}
							/>
						)
					}
				</Shown>
			</Section>
			<Section title="Demand">
				<Shown live={demand}>
					{(list) => (
						<>
							<div class="two">{types.map((type) => <OneType key={type} type={type} rows={list.data} step={step} />)}</div>
							<details>
								<summary>In numbers</summary>
								<Table
									caption="Supply and demand by step"
									columns={[
										{ name: 'From', cell: (row: DemandStep) => <When at={row.since} /> },
										{ name: 'Type', head: true, cell: (row) => row.gpu_type },
										{ name: 'There', number: true, cell: (row) => short(credits(row.supply)) },
										{ name: 'Allocated', number: true, cell: (row) => short(credits(row.allocated)) },
										{ name: 'Waiting', number: true, cell: (row) => short(credits(row.waiting)) },
										{ name: 'Wanted', number: true, cell: (row) => short(credits(row.demand)) }
									]}
									rows={[...list.data].reverse()}
									id={(row) => row.since + row.gpu_type}
								/>
							</details>
						</>
					)}
				</Shown>
			</Section>
		</Page>
	);
}
