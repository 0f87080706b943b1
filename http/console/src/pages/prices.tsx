/*
 * prices.tsx: what devices cost, did cost and will cost.
 */
import { useState } from 'preact/hooks';
import { request } from '../api';
import { credits, dayOf } from '../format';
import { refreshAll, useLive } from '../live';
import { Empty, Field, Form, Money, Page, Section, Shown, Table } from '../parts';
import { useRole } from '../role';
import type { List, Price } from '../rows';

/* Which rows are in force: of each type, pool and kind the latest that has begun. */
function inForce(rows: Price[]): Set<Price> {
	const best = new Map<string, Price>();

	for (const one of rows) {
		const key = JSON.stringify([one.gpu_type, one.pool, one.spot]);
		const old = best.get(key);

		if (Date.parse(one.effective_at) > Date.now()) continue;
		if (!old || Date.parse(one.effective_at) > Date.parse(old.effective_at) || (one.effective_at === old.effective_at && Date.parse(one.recorded_at) > Date.parse(old.recorded_at))) best.set(key, one);
	}
	return new Set(best.values());
}

function NewPrice() {
	const [type, setType] = useState('');
	const [price, setPrice] = useState('');
	const [from, setFrom] = useState('');

	return (
		<Section title="Set a price" lead="jobs that were submitted keep theirs">
			<Form
				label="Set the price"
				disabled={type.trim() === '' || !(credits(price) >= 0) || price === ''}
				send={async () => {
					await request('POST', '/v1/prices', {
						gpu_type: type.trim(), per_gpu_hour: price, ...(from ? { effective_at: new Date(from).toISOString() } : {})
					});
					refreshAll();
					return 'The price is set.';
				}}
			>
				<div class="fields">
					<Field label="GPU type">{(id) => <input id={id} value={type} onInput={(event) => setType(event.currentTarget.value)} />}</Field>
					<Field label="Credits per GPU-hour">{(id) => <input id={id} inputMode="decimal" value={price} onInput={(event) => setPrice(event.currentTarget.value)} />}</Field>
					<Field label="From" help="Leave it empty for now.">{(id) => <input id={id} type="datetime-local" value={from} onInput={(event) => setFrom(event.currentTarget.value)} />}</Field>
				</div>
			</Form>
		</Section>
	);
}

export function PricesPage() {
	const role = useRole();
	const prices = useLive<List<Price>>('/v1/prices', 10000);
	const rows = [...(prices.data?.data ?? [])].sort((a, b) => a.gpu_type.localeCompare(b.gpu_type) || a.pool.localeCompare(b.pool) || Date.parse(b.effective_at) - Date.parse(a.effective_at));
	const now = inForce(rows);

	return (
		<Page name="Prices" title="Prices">
			<Shown live={prices}>
				{() =>
					rows.length === 0 ? (
						<Empty><p>Nothing has a price, so every job is denied. Set the first price below.</p></Empty>
					) : (
						<Table
							caption="Prices and their history"
							columns={[
								{ name: 'GPU type', head: true, cell: (row: Price) => row.gpu_type + (row.spot ? ' (spot)' : '') },
								{ name: 'Pool', cell: (row) => row.pool || 'every pool' },
								{ name: 'Per GPU-hour', number: true, cell: (row) => <Money of={row.per_gpu_hour} /> },
								{ name: 'From', cell: (row) => dayOf(row.effective_at) },
								{ name: 'In force', cell: (row) => (now.has(row) ? <b>now</b> : Date.parse(row.effective_at) > Date.now() ? 'later' : 'no more') }
							]}
							rows={rows}
							id={(row) => row.gpu_type + row.pool + row.spot + row.effective_at + row.recorded_at}
						/>
					)
				}
			</Shown>
			{role.may('set_price') && <NewPrice />}
		</Page>
	);
}
