/*
 * model.tsx: a repository of the model registry: its card, files, versions,
 * lineage, scans, and how it is used and what that costs.  Each part has an
 * address of its own, with the revision that it is about.
 */
import { useState, type StateUpdater, type Dispatch } from 'preact/hooks';
import { address, newKey, request } from '../api';
import { Chart } from '../chart';
import { bytesText, credits, duration } from '../format';
import { refreshAll, useLive } from '../live';
import { Markdown } from '../markdown';
import { Ask, Empty, Field, Form, Money, Page, Section, Shown, State, Table, Tile, Tiles, When } from '../parts';
import { useRole, type Role } from '../role';
import { go, Link, to, usePlace } from '../route';
import type { Dataset, List, Mirror, ModelCost, ModelDetails, ModelDownload, ModelScore, Scan, Traffic, Version, VersionDetails, VersionFile, VersionRef } from '../rows';
import { useAccount, withQuery } from './account';
import { asText } from './evalrun';
import { Lineage } from './lineage';
import { toModel } from './models';

const PARTS = [['', 'Card'], ['files', 'Files'], ['versions', 'Versions'], ['lineage', 'Lineage'], ['scans', 'Scans'], ['use', 'Use and cost']] as const;

/* What a part of the page is about, and for whom it is shown. */
interface About {
	reader: string;
	account: string;
	org: string;
	name: string;
	kind: string;
	details: ModelDetails;
}

/* Who may change what its owner may: by SQL it is the same rule. */
function owns(role: Role, about: About): boolean {
	return about.details.permission === 'admin' && about.reader === about.org && role.session.scope === 'admin';
}

function Refs(props: { of: VersionRef[] }) {
	if (props.of.length === 0) return <>–</>;
	return (
		<>
			{props.of.map((one) => (
				<span key={one.ref} class={`ref ${one.kind}`} title={one.protected ? `protected ${one.kind}` : one.kind}>
					{one.ref}
					{one.protected && <span class="only-read"> (protected)</span>}
				</span>
			))}
		</>
	);
}

/* Why a version is not read, and what can be done. */
function StateNote(props: { state: string | null; reason: string | null; own: boolean; decides?: boolean }) {
	const { state } = props;

	if (state === null || state === 'ready') return null;
	const words: Record<string, [string, string]> = {
		quarantined: ['This version is in quarantine: nobody reads its files.', props.own ? 'Commit a version without what is wrong with it, and ask the operator to look again.' : 'Use another version, or ask its owner.'],
		restricted: ['This version failed a scan: only those read it who had downloaded it before.', props.own ? 'The scans say what was found. Commit a version without it, or ask the operator to release this one.' : 'Use another version, or ask its owner.'],
		held: ['This version waits for its scans; until then only who may write reads it.', 'It becomes readable by itself when all scanners have passed it.'],
		scanning: ['Scanners look at this version.', 'It is read meanwhile.'],
		removed: ['The files of this version were removed by retention.', 'Its place in lineage stays.']
	};
	const [what, advice] = words[state] ?? [state, ''];
	const next = props.decides && (state === 'quarantined' || state === 'restricted') ? 'Release it if it is harmless; what was found is below.' : advice;

	return (
		<div class={state === 'quarantined' || state === 'restricted' ? 'problem' : 'empty'}>
			<p><b>{what}</b></p>
			{props.reason && <p>{props.reason}</p>}
			<p>{next}</p>
		</div>
	);
}

function Card(props: { about: About }) {
	const { details, org, name, kind, reader } = props.about;
	const facts: [string, string][] = [
		['Licence', details.license ?? 'none is stated'], ['Task', details.task ?? ''], ['Library', details.library ?? ''], ['Languages', details.languages.join(', ')],
		['Tags', [...details.tags, ...details.labels].join(', ')], ['Read by', details.visibility === 'public' ? 'everybody' : 'who may'],
		['Paid by', details.paid_by === null ? '' : details.paid_by || org]
	];

	return (
		<div class="beside">
			<div>
				{details.card === null ? (
					details.card_refused ? (
						<Empty><p>The card is a file of this version, so it is not shown.</p></Empty>
					) : (
						<Empty>
							<p>This repository has no card.</p>
							{details.permission !== 'read' && <p>Commit a <code>README.md</code> that says what it is for; the lines between two of <code>---</code> at its beginning make it be found.</p>}
						</Empty>
					)
				) : (
					<section class="card" aria-label="Card">
						<p class="by">Written by {org}. Links lead elsewhere, and pictures are not loaded.</p>
						<Markdown text={details.card} />
					</section>
				)}
			</div>
			<aside aria-label="Facts">
				<dl class="facts">
					{facts.filter(([, value]) => value !== '').map(([term, value]) => <><dt>{term}</dt><dd>{value}</dd></>)}
					{details.base_models.length > 0 && (
						<>
							<dt>Made from</dt>
							<dd>{details.base_models.map((one) => {
								const [of, what, ...more] = one.split('/');

								return <span class="line" key={one}>{of && what && more.length === 0 ? <Link href={toModel(reader, of, what, 'model')}>{one}</Link> : one}</span>;
							})}</dd>
						</>
					)}
					<dt>Versions</dt><dd>{details.versions.toLocaleString('en')}</dd>
					<dt>Downloads</dt><dd>{details.downloads.toLocaleString('en')} in 30 days</dd>
					<dt>Changed</dt><dd><When at={details.modified_at} relative /></dd>
				</dl>
				<h3>Get it</h3>
				<code class="secret" tabIndex={0}>{kind === 'image' ? `skopeo copy docker://REGISTRY/${org}/${name}:TAG oci:${name}` : `HF_ENDPOINT=https://REGISTRY hf download ${kind === 'dataset' ? '--repo-type dataset ' : ''}${org}/${name}`}</code>
			</aside>
		</div>
	);
}

/* Which revision a part is about, as the address says; else main. */
function RevChoice(props: { about: About; rev: string }) {
	const { refs } = props.about.details;
	const known = refs.some((one) => one.ref === props.rev);

	return (
		<Field label="Revision">
			{(id) => (
				<select id={id} value={props.rev} onChange={(event) => go(withQuery('rev', event.currentTarget.value === 'main' ? '' : event.currentTarget.value).replace(/([?&])(folder|after)=[^&]*&?/g, '$1').replace(/[?&]$/, ''), true)}>
					{!known && <option value={props.rev}>{props.rev.slice(0, 10)}</option>}
					{refs.map((one) => <option key={one.ref} value={one.ref}>{one.ref}{one.kind === 'tag' ? ' (tag)' : ''}</option>)}
				</select>
			)}
		</Field>
	);
}

function useRevision(about: About): { rev: string; version: ReturnType<typeof useLive<VersionDetails>> } {
	const place = usePlace();
	const rev = place.query.get('rev') ?? 'main';
	const version = useLive<VersionDetails>(about.details.versions > 0 ? address(`/v1/registry/models/${about.details.model}/version`, { org: about.reader, account: about.account, revision: rev }) : null, 5000);

	return { rev, version };
}

function NoVersion() {
	return (
		<Empty>
			<p>Nothing was committed yet.</p>
			<p>The first push of a client makes the first version.</p>
		</Empty>
	);
}

const FILES = 100;

function FileList(props: { about: About; rev: string; version: VersionDetails }) {
	const { about } = props;
	const place = usePlace();
	const folder = place.query.get('folder') ?? '';
	const after = place.query.get('after') ?? '';
	const files = useLive<List<VersionFile>>(address(`/v1/registry/models/${about.details.model}/files`, { org: about.reader, account: about.account, revision: props.version.oid, folder, after, limit: FILES + 1 }), 30000);
	const at = (inside: string, from?: string) => toModel(about.reader, about.org, about.name, about.kind, 'files', { rev: place.query.get('rev') ?? undefined, folder: inside || undefined, after: from, account: place.query.get('account') ?? undefined });
	const words = folder.split('/').filter(Boolean);

	return (
		<>
			<p class="crumbs">
				<Link href={at('')}>{about.name}</Link>
				{words.map((word, n) => <span key={n}> / {n === words.length - 1 ? word : <Link href={at(words.slice(0, n + 1).join('/'))}>{word}</Link>}</span>)}
			</p>
			<Shown live={files}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>{folder === '' ? 'This version has no files.' : 'This version has no such folder.'}</p></Empty>
					) : (
						<>
							<Table
								caption={folder === '' ? 'Files of the version' : `Files in ${folder}`}
								columns={[
									{ name: 'Name', head: true, cell: (row: VersionFile) => (row.is_folder ? <Link href={at(folder === '' ? row.name : `${folder}/${row.name}`)}>{row.name}/</Link> : row.name) },
									{ name: 'Size', number: true, cell: (row) => <span title={`${Number(row.bytes).toLocaleString('en')} bytes`}>{bytesText(row.bytes)}</span> },
									...(list.data.some((one) => one.is_folder) ? [{ name: 'Files', number: true, cell: (row: VersionFile) => (row.is_folder ? row.files.toLocaleString('en') : '') }] : []),
									{ name: 'SHA-256', cell: (row) => (row.sha256 ? <code class="hex" title={row.sha256}>{row.sha256.slice(0, 16)}…</code> : '') },
									...(list.data.some((one) => one.blocked) ? [{ name: 'Read', cell: (row: VersionFile) => (row.blocked ? <span class="warn">{row.is_folder ? 'some are blocked' : 'blocked'}</span> : '') }] : [])
								]}
								rows={list.data.slice(0, FILES)}
								id={(row) => row.name}
							/>
							{(after !== '' || list.data.length > FILES) && (
								<p class="actions">
									{after !== '' && <Link class="button" href={at(folder)}>First page</Link>}
									{list.data.length > FILES && <Link class="button" href={at(folder, list.data[FILES - 1]?.name)}>Next page</Link>}
								</p>
							)}
						</>
					)
				}
			</Shown>
		</>
	);
}

function Files(props: { about: About }) {
	const { rev, version } = useRevision(props.about);

	if (props.about.details.versions === 0) return <NoVersion />;
	return (
		<>
			<div class="filters"><RevChoice about={props.about} rev={rev} /></div>
			<Shown live={version}>
				{(one) => (
					<>
						<StateNote state={one.state} reason={one.reason} own={props.about.details.permission === 'admin'} />
						<Tiles>
							<Tile name="Version" note={<When at={one.created_at} relative />}><code>{one.oid.slice(0, 10)}</code></Tile>
							<Tile name="Size" note={`${Number(one.bytes).toLocaleString('en')} bytes`}>{bytesText(one.bytes)}</Tile>
							<Tile name="Files" note={one.blocked > 0 ? <span class="warn">{one.blocked.toLocaleString('en')} blocked</span> : undefined}>{one.files.toLocaleString('en')}</Tile>
						</Tiles>
						<FileList about={props.about} rev={rev} version={one} />
					</>
				)}
			</Shown>
		</>
	);
}

function SetAlias(props: { about: About; version: Version }) {
	const [alias, setAlias] = useState('');
	const [key, setKey] = useState(newKey);

	return (
		<Ask button="Name it" title={`Name ${props.version.oid.slice(0, 10)} by an alias`} class="plain">
			{(close) => (
				<Form
					label="Set the alias"
					disabled={alias === ''}
					send={async () => {
						await request('POST', '/v1/call/registry.set_alias', { org: props.about.org, model: props.about.details.model, alias: alias.replace(/^@/, ''), version: props.version.version }, key);
						setKey(newKey());
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Leave it</button>}
				>
					<Field label="Alias" help="such as champion; if another version has it, it moves here">
						{(id) => <input id={id} value={alias} maxLength={101} required onInput={(event) => setAlias(event.currentTarget.value)} />}
					</Field>
				</Form>
			)}
		</Ask>
	);
}

function DeleteAlias(props: { about: About; alias: string }) {
	return (
		<Ask button={`Remove ${props.alias}`} title={`Remove the alias ${props.alias}`} class="plain">
			{(close) => (
				<Form
					label="Remove it"
					danger
					send={async () => {
						await request('POST', '/v1/call/registry.delete_alias', { org: props.about.org, model: props.about.details.model, alias: props.alias.slice(1) });
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Leave it</button>}
				>
					<p>Its version stays. Who asks for {props.alias} finds nothing from then on.</p>
				</Form>
			)}
		</Ask>
	);
}

const VERSIONS = 25;

function Versions(props: { about: About }) {
	const { about } = props;
	const role = useRole();
	const place = usePlace();
	const after = Number(place.query.get('after') ?? 0) || undefined;
	const versions = useLive<List<Version>>(address(`/v1/registry/models/${about.details.model}/versions`, { org: about.reader, account: about.account, after, limit: VERSIONS }), 5000);
	const mayName = owns(role, about) && role.may('registry.set_alias');

	return (
		<Shown live={versions}>
			{(list) =>
				list.data.length === 0 ? (
					<NoVersion />
				) : (
					<>
						<Table
							caption="Versions, newest first"
							columns={[
								{ name: 'Version', head: true, cell: (row: Version) => <Link href={toModel(about.reader, about.org, about.name, about.kind, 'files', { rev: row.oid })}><code>{row.oid.slice(0, 10)}</code></Link> },
								{ name: 'What', cell: (row) => row.title || '–' },
								{ name: 'Refs', cell: (row) => <Refs of={row.refs} /> },
								{ name: 'State', cell: (row) => <State of={row.state} /> },
								{ name: 'Files', number: true, cell: (row) => row.files.toLocaleString('en') },
								{ name: 'Committed', cell: (row) => <><When at={row.created_at} relative /> <span class="muted">by {row.author.replace(/^account:/, '').replace(/\/$/, '')}</span></> },
								...(mayName
									? [{
										name: 'Change',
										cell: (row: Version) => (
											<span class="actions">
												{row.state !== 'quarantined' && row.state !== 'restricted' && row.state !== 'removed' && <SetAlias about={about} version={row} />}
												{row.refs.filter((one) => one.kind === 'alias' && !one.protected).map((one) => <DeleteAlias key={one.ref} about={about} alias={one.ref} />)}
											</span>
										)
									}]
									: [])
							]}
							rows={list.data}
							id={(row) => row.version}
						/>
						{(after || list.truncated) && (
							<p class="actions">
								{after && <Link class="button" href={withQuery('after', '')}>Newest</Link>}
								{list.truncated && list.next !== null && <Link class="button" href={withQuery('after', String(list.next))}>Older</Link>}
							</p>
						)}
					</>
				)
			}
		</Shown>
	);
}

function Datasets(props: { about: About; version: VersionDetails }) {
	const { about, version } = props;
	const datasets = useLive<List<Dataset>>(address(`/v1/registry/versions/${version.version}/datasets`, { org: about.reader, account: about.account, limit: 200 }), 30000);

	return (
		<>
			{about.kind !== 'dataset' && (
				<Section title="Datasets" lead="what it, and those above it, were trained on, as stated at the commit">
					<Shown live={datasets}>
						{(list) =>
							list.data.length === 0 ? (
								<Empty><p>No dataset is stated. A card's <code>datasets</code> are recorded with each commit.</p></Empty>
							) : (
								<Table
									caption="Datasets"
									columns={[
										{
											name: 'Dataset', head: true,
											cell: (row: Dataset) => {
												const [of, what] = row.dataset.split('/');

												return row.in_registry && of && what ? <Link href={toModel(about.reader, of, what, 'dataset')}>{row.dataset}</Link> : row.dataset;
											}
										},
										{ name: 'Licence', cell: (row) => row.license ?? <span class="warn">unknown</span> },
										{ name: 'Trained on it', cell: (row) => (row.depth === 0 ? 'this version' : `${row.of_org}/${row.of_name}, ${row.depth} above`) }
									]}
									rows={list.data}
									id={(row) => `${row.of_version} ${row.dataset}`}
								/>
							)
						}
					</Shown>
				</Section>
			)}
			<Section title="Where it comes from">
				<dl class="facts">
					<dt>Committed</dt><dd><When at={version.created_at} /> by {version.author.replace(/^account:/, '').replace(/\/$/, '')}</dd>
					{version.title && <><dt>Title</dt><dd>{version.title}</dd></>}
					{version.description && <><dt>Description</dt><dd class="said">{version.description}</dd></>}
					<dt>Origin</dt>
					<dd>{version.source ? <>{version.source}, {version.source_repository}, where it is <code class="hex">{version.source_oid}</code></> : 'It was made here.'}</dd>
					<dt>Oid</dt><dd><code class="hex">{version.oid}</code></dd>
				</dl>
			</Section>
		</>
	);
}

function LineagePart(props: { about: About }) {
	const { about } = props;
	const { rev, version } = useRevision(about);

	if (about.details.versions === 0) return <NoVersion />;
	return (
		<>
			<div class="filters"><RevChoice about={about} rev={rev} /></div>
			<Shown live={version}>
				{(one) => (
					<>
						<Lineage reader={about.reader} account={about.account} version={one.version} />
						<Datasets about={about} version={one} />
					</>
				)}
			</Shown>
		</>
	);
}

/* A reason, which those read who are concerned. */
function Reason(props: { value: string; change: Dispatch<StateUpdater<string>>; help: string }) {
	return (
		<Field label="Reason" wide help={props.help}>
			{(id) => <input id={id} value={props.value} maxLength={1000} required onInput={(event) => props.change(event.currentTarget.value)} />}
		</Field>
	);
}

/* What an operator does with a version: call is quarantine or release_quarantine. */
function Decide(props: { about: About; version: VersionDetails; call: 'quarantine' | 'release_quarantine' }) {
	const [reason, setReason] = useState('');
	const [descendants, setDescendants] = useState(true);
	const [key, setKey] = useState(newKey);
	const release = props.call === 'release_quarantine';

	return (
		<Ask button={release ? 'Release' : 'Quarantine'} title={`${release ? 'Release' : 'Quarantine'} ${props.version.oid.slice(0, 10)}`} class={release ? undefined : 'danger'}>
			{(close) => (
				<Form
					label={release ? 'Release it' : 'Quarantine it'}
					danger={!release}
					disabled={reason === ''}
					send={async () => {
						await request('POST', `/v1/call/registry.${props.call}`, { org: props.about.org, version: props.version.version, reason, descendants }, key);
						setKey(newKey());
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Leave it</button>}
				>
					<p>{release ? 'Its files are read again, and what its quarantine blocked is blocked no more.' : 'Nobody reads it any more, and its files are blocked wherever their bytes were or will be committed.'}</p>
					<div class="fields"><Reason value={reason} change={setReason} help={release ? 'for the audit log' : 'its readers see it'} /></div>
					<p><label><input type="checkbox" checked={descendants} onChange={(event) => setDescendants(event.currentTarget.checked)} /> and all that was made from it</label></p>
				</Form>
			)}
		</Ask>
	);
}

function Rescan(props: { about: About; version: VersionDetails }) {
	return (
		<Ask button="Scan again" title={`Scan ${props.version.oid.slice(0, 10)} again`}>
			{(close) => (
				<Form
					label="Scan it"
					send={async () => {
						const n = await request<number>('POST', '/v1/call/registry.rescan', { org: props.about.org, version: props.version.version });

						refreshAll();
						if (Number(n) === 0) return 'No scanner is set for this organisation: set_scan_policy() names them.';
						close();
						return undefined;
					}}
					beside={<button type="button" class="plain" onClick={close}>Leave it</button>}
				>
					<p>All scanners of the policy look at all of its files. If it is restricted, it stays so until all have passed.</p>
				</Form>
			)}
		</Ask>
	);
}

function Found(props: { of: Record<string, unknown> | null }) {
	const { of } = props;

	if (of === null || Object.keys(of).length === 0) return <>–</>;
	const said = [of.found, of.noted, of.reason].filter((one) => one !== undefined).flat();

	return <div class="said">{said.length > 0 ? said.map((one) => (typeof one === 'string' ? one : asText(one))).join('\n') : asText(of)}</div>;
}

function ScanList(props: { about: About; version: VersionDetails }) {
	const { about, version } = props;
	const scans = useLive<List<Scan>>(address(`/v1/registry/versions/${version.version}/scans`, { org: about.org }), 5000);
	const scores = useLive<List<ModelScore>>(useRole().may('registry.scores') ? address(`/v1/registry/versions/${version.version}/scores`, { org: about.org }) : null, 30000);

	return (
		<>
			<Section title="Scans" lead="what each scanner found">
				<Shown live={scans}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>No scanner looks at this version. An operator names them by <code>set_scan_policy()</code>; then each commit is scanned.</p></Empty>
						) : (
							<Table
								caption="Scans"
								columns={[
									{ name: 'Scanner', head: true, cell: (row: Scan) => row.scanner },
									{ name: 'Verdict', cell: (row) => <State of={row.verdict} /> },
									{ name: 'Found', cell: (row) => <Found of={row.detail} /> },
									{ name: 'Reported', cell: (row) => <When at={row.reported_at} relative /> }
								]}
								rows={list.data}
								id={(row) => row.scanner}
							/>
						)
					}
				</Shown>
			</Section>
			{(scores.data?.data.length ?? 0) > 0 && (
				<Section title="Scores" lead="measured by an evaluation run, or stated by its author">
					<Table
						caption="Scores"
						columns={[
							{ name: 'Benchmark', head: true, cell: (row: ModelScore) => row.benchmark },
							{ name: 'Metric', cell: (row) => row.metric },
							{ name: 'Score', number: true, cell: (row) => row.score },
							{ name: 'By', cell: (row) => (row.measured ? 'measured by a run' : `stated by ${row.set_by.replace(/^account:/, '').replace(/\/$/, '')}`) },
							{ name: 'When', cell: (row) => <When at={row.set_at} relative /> }
						]}
						rows={scores.data?.data ?? []}
						id={(row) => `${row.benchmark} ${row.metric}`}
					/>
				</Section>
			)}
		</>
	);
}

function Scans(props: { about: About }) {
	const { about } = props;
	const role = useRole();
	const { rev, version } = useRevision(about);
	const decides = role.session.scope === 'admin' && role.may('registry.quarantine');
	const own = about.details.permission === 'admin' && about.reader === about.org;

	if (about.details.versions === 0) return <NoVersion />;
	return (
		<>
			<div class="filters"><RevChoice about={about} rev={rev} /></div>
			<Shown live={version}>
				{(one) => (
					<>
						<StateNote state={one.state} reason={one.reason} own={own} decides={decides} />
						{one.state === 'ready' && <p>Version <code>{one.oid.slice(0, 10)}</code> is neither in quarantine nor restricted.</p>}
						{one.blocked > 0 && <p class="warn">{one.blocked === 1 ? 'One of its files is' : `${one.blocked.toLocaleString('en')} of its files are`} blocked: nobody reads these bytes, in whatever version. <Link href={toModel(about.reader, about.org, about.name, about.kind, 'files', { rev: one.oid })}>See which</Link></p>}
						{decides && (
							<p class="actions">
								{one.state !== 'quarantined' && <Decide about={about} version={one} call="quarantine" />}
								{(one.state === 'quarantined' || one.state === 'restricted') && <Decide about={about} version={one} call="release_quarantine" />}
								{role.may('registry.rescan') && <Rescan about={about} version={one} />}
							</p>
						)}
						{own && role.may('registry.scans') ? <ScanList about={about} version={one} /> : <Empty><p>What scanners found is told to the owner of the repository.</p></Empty>}
					</>
				)}
			</Shown>
		</>
	);
}

function Downloads(props: { about: About }) {
	const { about } = props;
	const place = usePlace();
	const before = Number(place.query.get('before') ?? 0) || undefined;
	const downloads = useLive<List<ModelDownload>>(address(`/v1/registry/models/${about.details.model}/downloads`, { org: about.org, after: before, limit: 25 }), 15000);

	return (
		<Section title="Who downloaded" lead="a download is a file that one client reads within an hour">
			<Shown live={downloads}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>Nobody has downloaded anything, or the log's retention is over.</p></Empty>
					) : (
						<>
							<Table
								caption="Downloads, newest first"
								columns={[
									{ name: 'Client', head: true, cell: (row: ModelDownload) => row.client.replace(/^account:/, '').replace(/\/$/, '').replace(/^address:/, 'address ') },
									{ name: 'File', cell: (row) => row.path ?? 'by git-lfs' },
									{ name: 'Began', cell: (row) => <When at={row.began_at} /> },
									{ name: 'Sent', number: true, cell: (row) => `${bytesText(row.bytes)} of ${bytesText(row.size)}` },
									{ name: 'Requests', number: true, cell: (row) => row.requests.toLocaleString('en') }
								]}
								rows={list.data}
								id={(row) => row.download}
							/>
							{(before || list.truncated) && (
								<p class="actions">
									{before && <Link class="button" href={withQuery('before', '')}>Newest</Link>}
									{list.truncated && list.next !== null && <Link class="button" href={withQuery('before', String(list.next))}>Older</Link>}
								</p>
							)}
						</>
					)
				}
			</Shown>
		</Section>
	);
}

function MirrorNote(props: { about: About }) {
	const { about } = props;
	const mirrors = useLive<List<Mirror>>(address('/v1/registry/mirrors', { org: about.org, account: about.account }), 15000);
	const one = mirrors.data?.data.find((row) => row.model === about.details.model);

	return (
		<Section title="Mirror" lead="the repository of another registry that it follows">
			<Shown live={mirrors}>
				{() =>
					one === undefined ? (
						<Empty><p>It follows none. <code>gpucredit_registry.set_mirror()</code> has it follow one.</p></Empty>
					) : (
						<>
							<dl class="facts">
								<dt>Follows</dt><dd>{one.repository} of {one.remote}</dd>
								<dt>Refs</dt><dd>{one.patterns.join(', ')}</dd>
								<dt>State</dt><dd>{one.state === 'failing' ? <span class="warn">failing, {one.failures} times</span> : one.state}</dd>
								<dt>Looks every</dt><dd>{duration(one.every)}</dd>
								<dt>As there</dt><dd><When at={one.synced_at} relative /></dd>
								<dt>Looks next</dt><dd><When at={one.due_at} relative /></dd>
							</dl>
							{one.last_error && <div class="problem gap"><b>The last attempt failed</b><p>{one.last_error}</p></div>}
						</>
					)
				}
			</Shown>
		</Section>
	);
}

function UsePart(props: { about: About }) {
	const { about } = props;
	const role = useRole();
	const own = about.details.permission === 'admin' && about.reader === about.org;
	const traffic = useLive<List<Traffic>>(own && role.may('registry.traffic') ? address(`/v1/registry/models/${about.details.model}/traffic`, { org: about.org, days: 30 }) : null, 30000);
	const cost = useLive<ModelCost>(own && role.may('registry.model_cost') ? address(`/v1/registry/models/${about.details.model}/cost`, { org: about.org }) : null, 30000);

	if (!own || !role.may('registry.traffic'))
		return (
			<>
				<Tiles><Tile name="Downloads" note="in 30 days">{about.details.downloads.toLocaleString('en')}</Tile></Tiles>
				<div class="gap"><Empty><p>Who pays for it, and what that costs, is told to the owner of the repository.</p></Empty></div>
			</>
		);
	return (
		<>
			<Shown live={cost}>
				{(one) => (
					<>
						{one.unpaid && <div class="problem"><b>A bill is open for more than seven days, so its files are not read.</b><p>Issue credit to {about.details.paid_by || about.org}; the next bill charges what is open.</p></div>}
						<Tiles>
							<Tile name="Stored" note="all versions, each content once">{bytesText(one.bytes)}</Tile>
							<Tile name="Costs a month at most" note={`${credits(one.storage_price)} a GB and month`}><Money of={one.storage_month} /></Tile>
							<Tile name="Sent in 30 days" note={about.details.downloads === 1 ? 'one download' : `${about.details.downloads.toLocaleString('en')} downloads`}>{bytesText(one.sent_bytes)}</Tile>
							<Tile name="Which costs" note={`${credits(one.egress_price)} a GB`}><Money of={one.egress_cost} /></Tile>
						</Tiles>
						<p class="muted">Bytes that files share are paid once, and those that nobody has read for 90 days cost {credits(one.cold_price)} a GB and month, so a bill is rather less. It is paid by {about.details.paid_by || about.org}.</p>
					</>
				)}
			</Shown>
			<Section title="Downloads" lead="of 30 days (UTC)">
				<Shown live={traffic}>
					{(list) => {
						const last = list.data.filter((one) => one.downloads > 0 || one.bytes > 0).reverse();

						if (last.length === 0) return <Empty><p>Nothing was downloaded in 30 days.</p></Empty>;
						return (
							<>
								<Chart
									times={list.data.map((one) => Date.parse(one.day) / 1000)}
									caption="Downloads a day"
									whole
									about={`Downloads a day in 30 days, ${about.details.downloads} in all. The table below has the numbers.`}
									lines={[{ label: 'downloads', values: list.data.map((one) => one.downloads), look: 'bars' }]}
								/>
								<Table
									caption="Days with downloads, newest first"
									columns={[
										{ name: 'Day', head: true, cell: (row: Traffic) => row.day },
										{ name: 'Downloads', number: true, cell: (row) => row.downloads.toLocaleString('en') },
										{ name: 'Sent', number: true, cell: (row) => bytesText(row.bytes) }
									]}
									rows={last}
									id={(row) => row.day}
								/>
							</>
						);
					}}
				</Shown>
			</Section>
			{role.may('registry.model_downloads') && <Downloads about={about} />}
			{about.kind !== 'image' && role.may('registry.mirrors') && <MirrorNote about={about} />}
		</>
	);
}

function Part(props: { part: string; about: About }) {
	switch (props.part) {
		case '': return <Card about={props.about} />;
		case 'files': return <Files about={props.about} />;
		case 'versions': return <Versions about={props.about} />;
		case 'lineage': return <LineagePart about={props.about} />;
		case 'scans': return <Scans about={props.about} />;
		case 'use': return <UsePart about={props.about} />;
	}
	return <Empty><p>There is no such part of a repository. Choose one above.</p></Empty>;
}

export function ModelPage(props: { reader: string; org: string; name: string; part: string }) {
	const account = useAccount(props.reader);
	const place = usePlace();
	const kind = place.query.get('kind') ?? 'model';
	const found = useLive<ModelDetails>(address('/v1/registry/model', { org: props.reader, account, of_org: props.org, name: props.name, kind }), 5000);
	const title = `${props.org}/${props.name}`;

	return (
		<Page
			name={title}
			title={title}
			over={<><Link href={to(['o', props.reader, 'models'])}>Models</Link> that {props.reader}{account ? ` / ${account}` : ''} may read{kind !== 'model' && `, ${kind}`}</>}
			actions={found.data?.state ? <State of={found.data.state} /> : undefined}
		>
			<nav class="tabs" aria-label="About this repository">
				{PARTS.map(([word, name]) => <Link key={word} href={toModel(props.reader, props.org, props.name, kind, word, { rev: place.query.get('rev') ?? undefined, account: place.query.get('account') ?? undefined })} current={props.part === word}>{name}</Link>)}
			</nav>
			<Shown live={found}>
				{(details) => (
					<>
						{props.part === '' && <StateNote state={details.state} reason={details.reason} own={details.permission === 'admin'} />}
						<Part part={props.part} about={{ reader: props.reader, account, org: props.org, name: props.name, kind, details }} />
					</>
				)}
			</Shown>
		</Page>
	);
}
