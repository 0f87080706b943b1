/*
 * models.tsx: the repositories of the model registry that an account may read,
 * or all of them for an operator, and the versions that are held back.
 */
import { useEffect, useState } from 'preact/hooks';
import { address } from '../api';
import { bytesText } from '../format';
import { useLive } from '../live';
import { Chips, Empty, Money, Page, Section, Shown, State, Table, Tile, Tiles, When } from '../parts';
import { useRole } from '../role';
import { go, here, Link, to, usePlace } from '../route';
import type { Facet, Held, List, Model, RegistryBill, RegistryStorage } from '../rows';
import { AccountChoice, useAccount, withQuery } from './account';

const PAGE = 25;
const KINDS = [{ value: '', name: 'All' }, { value: 'model', name: 'Models' }, { value: 'dataset', name: 'Datasets' }, { value: 'image', name: 'Images' }];
const SORTS: Record<string, string> = { '': 'newest first', modified: 'changed last', downloads: 'most downloaded', name: 'by name' };
const FACETS: Record<string, string> = { task: 'Task', library: 'Library', license: 'Licence', language: 'Language', tag: 'Tag', label: 'Label' };

/* The address of a repository's page, for somebody who reads as an organisation. */
export function toModel(reader: string, org: string, name: string, kind: string, part = '', query: Record<string, string | undefined> = {}): string {
	return to(['o', reader, 'models', org, name, ...(part ? [part] : [])], { kind: kind === 'model' ? undefined : kind, ...query });
}

/* The present address with one filter changed: the first page of what it finds. */
function filtered(name: string, value: string): string {
	return withQuery(name, value).replace(/([?&])skip=\d+&?/, '$1').replace(/[?&]$/, '');
}

/* The same with a facet, of which there may be several, added or taken away. */
function withFacet(name: string, value: string, add: boolean): string {
	const query = here().query;
	const others = query.getAll(name).filter((one) => one !== value);

	query.delete(name);
	query.delete('skip');
	[...others, ...(add ? [value] : [])].forEach((one) => query.append(name, one));
	const text = query.toString();

	return `${window.location.pathname}${text ? `?${text}` : ''}`;
}

function Facets(props: { path: string; chosen: [string, string][] }) {
	const facets = useLive<List<Facet>>(props.path, 60000);
	const rows = (facets.data?.data ?? []).filter((one) => !props.chosen.some(([, value]) => value === (one.facet ?? one.value)));
	const kinds = Object.keys(FACETS).filter((kind) => rows.some((one) => one.kind === kind));

	if (kinds.length === 0) return null;
	return (
		<details class="facets">
			<summary>Narrow by task, library, licence or tag</summary>
			<div class="facet-groups">
				{kinds.map((kind) => (
					<section key={kind} aria-label={FACETS[kind]}>
						<h3>{FACETS[kind]}</h3>
						<ul>
							{rows.filter((one) => one.kind === kind).map((one) => (
								<li key={one.value}>
									<Link href={withFacet(kind === 'label' ? 'label' : 'facet', one.facet ?? one.value, true)}>{one.value}</Link> <small class="num">{one.models}</small>
								</li>
							))}
						</ul>
					</section>
				))}
			</div>
		</details>
	);
}

function Search(props: { query: string }) {
	const [text, setText] = useState(props.query);

	useEffect(() => setText(props.query), [props.query]);
	return (
		<form
			class="search"
			role="search"
			onSubmit={(event) => {
				event.preventDefault();
				go(filtered('query', text.trim()), true);
			}}
		>
			<label>
				<span class="only-read">Search</span>
				<input type="search" value={text} maxLength={500} placeholder="a name, or words of a card" onInput={(event) => setText(event.currentTarget.value)} />
			</label>
			<button type="submit" class="main">Search</button>
		</form>
	);
}

export function HeldTable(props: { rows: Held[]; reader?: string }) {
	return (
		<Table
			caption="Versions that are held back, newest first"
			columns={[
				{ name: 'Repository', head: true, cell: (row: Held) => <Link href={toModel(props.reader ?? row.model_org, row.model_org, row.name, row.kind, 'scans', { rev: row.oid })}>{row.model_org}/{row.name}</Link> },
				{ name: 'Version', cell: (row) => <code>{row.oid.slice(0, 10)}</code> },
				{ name: 'Named by', cell: (row) => row.refs.map((one) => one.ref).join(', ') || '–' },
				{ name: 'State', cell: (row) => <State of={row.state} /> },
				{ name: 'Why', cell: (row) => row.reason ?? '–' },
				{ name: 'Since', cell: (row) => <When at={row.since} relative /> }
			]}
			rows={props.rows}
			id={(row) => row.version}
		/>
	);
}

function HeldBack(props: { path: string; reader?: string; always?: boolean }) {
	const held = useLive<List<Held>>(props.path, 5000);

	if (!props.always && !held.problem && (held.data?.data.length ?? 0) === 0) return null;
	return (
		<Section title="Held back" lead="versions in quarantine, and those that failed a scan">
			<Shown live={held}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>Nothing is in quarantine, and no version is restricted.</p></Empty>
					) : (
						<>
							<HeldTable rows={list.data} reader={props.reader} />
							{list.truncated && <p class="muted">These are the newest 25.</p>}
						</>
					)
				}
			</Shown>
		</Section>
	);
}

function Cost(props: { org: string; account: string }) {
	const role = useRole();
	const storage = useLive<RegistryStorage>(props.account === '' && role.may('registry.storage') ? address('/v1/registry/storage', { org: props.org }) : null, 60000);
	const bills = useLive<List<RegistryBill>>(role.may('registry.bills') ? address('/v1/registry/bills', { org: props.org, account: props.account, limit: 14 }) : null, 60000);
	const kept = storage.data;

	if (!role.may('registry.bills')) return null;
	return (
		<Section title="What it costs" lead="storage and sent bytes, charged for each day that is over (UTC)">
			{kept && (
				<Tiles>
					<Tile name="Files" note="each content once">{bytesText(kept.logical)}</Tile>
					<Tile name="Paid for" note="after what files share">{bytesText(kept.unique)}</Tile>
					<Tile name="Billed so far"><Money of={kept.billed} /></Tile>
				</Tiles>
			)}
			<Shown live={bills}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>No day was billed yet. The first bill is made when the first day with files is over.</p></Empty>
					) : (
						<Table
							caption="Bills, newest first"
							columns={[
								{ name: 'Day', head: true, cell: (row: RegistryBill) => row.day },
								{ name: 'Account', cell: (row) => row.of_account || props.org },
								{ name: 'Stored', number: true, cell: (row) => `${bytesText((Number(row.byte_hours) + Number(row.cold_byte_hours)) / 24)}` },
								{ name: 'Sent', number: true, cell: (row) => bytesText(row.egress_bytes) },
								{ name: 'Amount', number: true, cell: (row) => <Money of={row.amount} /> },
								{ name: 'Paid', cell: (row) => (row.paid_at ? <When at={row.paid_at} relative /> : <span class="warn">not yet</span>) }
							]}
							rows={list.data.filter((row) => row.egress_bytes > 0 || Number(row.byte_hours) > 0 || Number(row.cold_byte_hours) > 0)}
							id={(row) => `${row.day} ${row.of_account}`}
						/>
					)
				}
			</Shown>
		</Section>
	);
}

function Nothing(props: { narrowed: boolean; org?: string }) {
	const role = useRole();

	if (props.narrowed) return <Empty><p>No repository has all of this. Take a word or a filter away.</p></Empty>;
	return (
		<Empty>
			<p>There is no repository yet.</p>
			{props.org !== undefined && role.may('registry.issue_token') && (
				<>
					<p>Make a token of the registry in SQL: <code>SELECT gpucredit_registry.issue_token('{props.org}', '');</code></p>
					<p>Then any client of Hugging Face pushes: <code>HF_ENDPOINT=https://REGISTRY hf upload {props.org}/NAME FOLDER</code></p>
				</>
			)}
		</Empty>
	);
}

/* What a card states, which may be long; nothing where it states nothing. */
function stated(value: string | null) {
	return value === null ? '' : <span class="clamp" title={value}>{value}</span>;
}

function ModelTable(props: { rows: Model[]; reader?: string }) {
	return (
		<Table
			caption="Repositories"
			columns={[
				{
					name: 'Repository', head: true,
					cell: (row: Model) => (
						<>
							<Link class="clamp" href={toModel(props.reader ?? row.model_org, row.model_org, row.name, row.kind)}>{row.model_org}/{row.name}</Link>
							{row.kind !== 'model' && <small> {row.kind}</small>}
						</>
					)
				},
				{ name: 'Task', cell: (row) => stated(row.task) },
				{ name: 'Library', cell: (row) => stated(row.library) },
				{ name: 'Licence', cell: (row) => stated(row.license) },
				{ name: 'Read by', cell: (row) => <span class="whole">{row.visibility === 'public' ? 'everybody' : 'who may'}</span> },
				{ name: 'State', cell: (row) => (row.state ? <State of={row.state} /> : <span class="muted">empty</span>) },
				{ name: 'Downloads', number: true, cell: (row) => row.downloads.toLocaleString('en') },
				{ name: 'Changed', cell: (row) => <When at={row.modified_at} relative /> }
			]}
			rows={props.rows}
			id={(row) => row.model}
		/>
	);
}

/* With an organisation: what its account may read; without: everything. */
export function ModelsPage(props: { org?: string }) {
	const own = useAccount(props.org ?? '');
	const account = props.org === undefined ? '' : own;
	const { query } = usePlace();
	const facets = query.getAll('facet');
	const labels = query.getAll('label');
	const kind = query.get('kind') ?? '';
	const sort = SORTS[query.get('sort') ?? ''] ? (query.get('sort') ?? '') : '';
	const skip = Math.max(0, Math.floor(Number(query.get('skip') ?? 0)) || 0);
	const of = query.get('of') ?? '';
	const search = { org: props.org, account: props.org === undefined ? undefined : account, query: query.get('query'), facets, labels, of_org: of, of_kind: kind };
	const all = props.org === undefined ? '/all' : '';
	const models = useLive<List<Model>>(address(`/v1/registry/models${all}`, { ...search, sort, ascending: sort === 'name' ? 'true' : undefined, skip, limit: PAGE + 1 }), 5000);
	const chosen: [string, string][] = [...facets.map((one): [string, string] => ['facet', one]), ...labels.map((one): [string, string] => ['label', one])];
	const title = props.org === undefined ? 'All models' : 'Models';

	return (
		<Page name={title} title={title} over={props.org === undefined ? 'of all organisations' : props.org + (account ? ` / ${account}` : '')} actions={props.org === undefined ? undefined : <AccountChoice org={props.org} />}>
			<div class="filters">
				<Search query={query.get('query') ?? ''} />
				<Chips label="Kind" value={kind} options={KINDS} change={(value) => go(filtered('kind', value), true)} />
				{props.org !== undefined && (
					<Chips label="Whose" value={of} options={[{ value: '', name: 'What I may read' }, { value: props.org, name: `Of ${props.org}` }]} change={(value) => go(filtered('of', value), true)} />
				)}
				<label>
					<span class="only-read">Order</span>
					<select value={sort} onChange={(event) => go(filtered('sort', event.currentTarget.value), true)}>
						{Object.entries(SORTS).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
					</select>
				</label>
			</div>
			{chosen.length > 0 && (
				<p class="filters">
					{chosen.map(([name, value]) => (
						<Link key={name + value} class="button chosen" href={withFacet(name, value, false)} label={`Without ${value}`}>{value} ×</Link>
					))}
				</p>
			)}
			<Facets path={address(`/v1/registry/facets${all}`, search)} chosen={chosen} />
			<Shown live={models}>
				{(list) => (
					<>
						{list.data.length === 0 ? (
							<Nothing narrowed={chosen.length > 0 || skip > 0 || kind !== '' || of !== '' || Boolean(query.get('query'))} org={props.org} />
						) : (
							<ModelTable rows={list.data.slice(0, PAGE)} reader={props.org} />
						)}
						{(skip > 0 || list.data.length > PAGE) && (
							<p class="actions">
								{skip > 0 && <Link class="button" href={withQuery('skip', String(Math.max(0, skip - PAGE) || ''))}>Page before</Link>}
								{list.data.length > PAGE && <Link class="button" href={withQuery('skip', String(skip + PAGE))}>Next page</Link>}
							</p>
						)}
					</>
				)}
			</Shown>
			<HeldBack
				path={props.org === undefined ? address('/v1/registry/held/all', { limit: PAGE }) : address('/v1/registry/held', { org: props.org, account, limit: PAGE })}
				reader={props.org}
				always={props.org === undefined}
			/>
			{props.org !== undefined && <Cost org={props.org} account={account} />}
		</Page>
	);
}
