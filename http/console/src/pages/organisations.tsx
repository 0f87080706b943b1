/*
 * organisations.tsx: who has how much credit, and for how long.
 */
import { useState } from 'preact/hooks';
import { address, request } from '../api';
import { credits, fromNow, micro, short } from '../format';
import { refreshAll, useLive } from '../live';
import { Empty, Field, Form, Money, Page, Section, Shown, Table, Tile, Tiles } from '../parts';
import { useRole } from '../role';
import { go, Link, to, usePlace } from '../route';
import type { Burn, List, Organisation } from '../rows';
import { withQuery } from './account';

function Create() {
	const [name, setName] = useState('');

	return (
		<Section title="Add an organisation">
			<Form
				label="Add"
				disabled={name.trim() === ''}
				send={async () => {
					await request('POST', '/v1/call/create_account', { org: name.trim() });
					refreshAll();
					return <>It is there, without credit. <Link href={to(['o', name.trim(), 'money'])}>Issue some</Link></>;
				}}
			>
				<div class="fields">
					<Field label="Name">{(id) => <input id={id} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
				</div>
			</Form>
		</Section>
	);
}

export function OrganisationsPage() {
	const role = useRole();
	const search = usePlace().query.get('search') ?? '';
	const list = useLive<List<Organisation>>(address('/v1/organisations', { search }), 5000);
	const burn = useLive<List<Burn>>(address('/v1/burn', { most: 1000 }), 15000);
	const burning = new Map((burn.data?.data ?? []).map((one) => [one.org, one]));
	const sum = (of: (one: Organisation) => string) => (list.data?.data ?? []).reduce((total, one) => total + micro(of(one)), 0n);
	const perDay = (burn.data?.data ?? []).reduce((total, one) => total + credits(one.per_day), 0);

	return (
		<Page name="Organisations" title="Organisations">
			<Tiles>
				<Tile name="Available" note="credit that was sold or given and not used"><Money of={sum((one) => one.available)} /></Tile>
				<Tile name="Held for jobs"><Money of={sum((one) => one.held)} /></Tile>
				<Tile name="Spent, ever"><Money of={sum((one) => one.spent)} /></Tile>
				<Tile name="Spent a day" note="mean of seven">{short(perDay)}</Tile>
			</Tiles>
			<div class="filters gap">
				<input type="search" placeholder="Search" aria-label="Search organisations" value={search} onInput={(event) => go(withQuery('search', event.currentTarget.value), true)} />
			</div>
			<Shown live={list}>
				{(rows) =>
					rows.data.length === 0 ? (
						<Empty>
							<p>{search ? `No organisation's name contains "${search}".` : 'There is no organisation yet. Add the first one below, then issue credit to it.'}</p>
						</Empty>
					) : (
						<Table
							caption="Organisations by name"
							columns={[
								{ name: 'Organisation', head: true, cell: (row: Organisation) => <><Link href={to(['o', row.org, 'credit'])}>{row.org}</Link>{row.suspended && <span class="warn"> suspended</span>}</> },
								{ name: 'Available', number: true, cell: (row) => <Money of={row.available} /> },
								{ name: 'Held', number: true, cell: (row) => <Money of={row.held} /> },
								{ name: 'Spent', number: true, cell: (row) => <Money of={row.spent} /> },
								{ name: 'A day', number: true, cell: (row) => short(credits(burning.get(row.org)?.per_day)) },
								{ name: 'Runs out', cell: (row) => (burning.get(row.org)?.runs_out ? fromNow(burning.get(row.org)?.runs_out) : 'not soon') },
								{ name: 'Expires next', cell: (row) => (row.next_expiry_at ? <><Money of={row.next_expiry_amount} /> {fromNow(row.next_expiry_at)}</> : 'nothing') }
							]}
							rows={rows.data}
							id={(row) => row.org}
						/>
					)
				}
			</Shown>
			{role.may('create_account') && <Create />}
		</Page>
	);
}
