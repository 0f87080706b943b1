/*
 * audit.tsx: what was decided, by whom: searched by organisation, job, actor and
 * time.
 */
import { useEffect, useState } from 'preact/hooks';
import { address, Problem, read } from '../api';
import { useLive } from '../live';
import { download, Empty, Field, Page, ProblemNote, Shown, Table, When } from '../parts';
import { go, Link, to, usePlace } from '../route';
import type { Audit, List, Organisation } from '../rows';

const FIELDS = ['org', 'job', 'operation', 'actor', 'since', 'until'];

export function AuditPage() {
	const place = usePlace();
	const organisations = useLive<List<Organisation>>(address('/v1/organisations', { limit: 1000 }), 60000);
	const org = place.query.get('org') ?? organisations.data?.data[0]?.org;
	const value = (name: string) => place.query.get(name) ?? '';
	const instantOf = (name: string) => (value(name) ? new Date(value(name)).toISOString() : '');
	const query = { org, job: value('job'), operation: value('operation'), actor: value('actor'), since: instantOf('since'), until: instantOf('until'), limit: 50 };
	const path = org ? address('/v1/audit', query) : null;
	const newest = useLive<List<Audit>>(path, 5000);
	/* all that is shown, once older rows were asked for: from then on it stands still, so that no row is left out between two pages */
	const [kept, setKept] = useState<Audit[] | null>(null);
	const [next, setNext] = useState<number | null | undefined>(undefined);
	const [problem, setProblem] = useState<Problem | null>(null);
	const rows = kept ?? newest.data?.data ?? [];
	const after = next === undefined ? newest.data?.next : next;

	useEffect(() => {
		setKept(null);
		setNext(undefined);
	}, [path]);
	return (
		<Page
			name="Audit"
			title="Audit"
			over="Nobody can change these rows"
			actions={
				<button
					type="button"
					disabled={rows.length === 0}
					onClick={() =>
						download(`audit-${org}.csv`, ['audit', 'at', 'login', 'actor', 'operation', 'decision', 'reason', 'account', 'job', 'client', 'detail'],
							rows.map((one) => [one.audit, one.at, one.login, one.actor, one.operation, one.decision, one.reason, one.account, one.job, one.client_addr, JSON.stringify(one.detail)]))
					}
				>
					CSV
				</button>
			}
		>
			<form
				onSubmit={(event) => {
					const form = new FormData(event.currentTarget);

					event.preventDefault();
					go(to(['audit'], Object.fromEntries(FIELDS.map((name) => [name, String(form.get(name) ?? '').trim()]))), true);
				}}
			>
				<div class="fields" key={place.query.toString()}>
					<Field label="Organisation">
						{(id) => (
							<>
								<input id={id} name="org" required list="organisations" defaultValue={org ?? ''} />
								<datalist id="organisations">{(organisations.data?.data ?? []).map((one) => <option key={one.org} value={one.org} />)}</datalist>
							</>
						)}
					</Field>
					<Field label="Job">{(id) => <input id={id} name="job" inputMode="numeric" pattern="\d*" defaultValue={value('job')} />}</Field>
					<Field label="Operation">{(id) => <input id={id} name="operation" placeholder="such as reserve" defaultValue={value('operation')} />}</Field>
					<Field label="Actor">{(id) => <input id={id} name="actor" placeholder="role" defaultValue={value('actor')} />}</Field>
					<Field label="From">{(id) => <input id={id} name="since" type="datetime-local" defaultValue={value('since')} />}</Field>
					<Field label="Until">{(id) => <input id={id} name="until" type="datetime-local" defaultValue={value('until')} />}</Field>
				</div>
				<p class="actions gap"><button type="submit" class="main">Search</button></p>
			</form>
			{problem && <ProblemNote problem={problem} />}
			{organisations.data && organisations.data.data.length === 0 && <Empty><p>There is no organisation yet, so nothing was decided.</p></Empty>}
			{path && (
				<Shown live={newest}>
					{() =>
						rows.length === 0 ? (
							<Empty><p>Nothing was decided that fits. Leave a field empty to search wider.</p></Empty>
						) : (
							<>
								<Table
									caption="Decisions, newest first"
									columns={[
										{ name: 'Time', cell: (row: Audit) => <When at={row.at} /> },
										{ name: 'Operation', head: true, cell: (row) => row.operation.replace(/_/g, ' ') },
										{ name: 'Decision', cell: (row) => <>{row.decision}{row.reason && <span class="muted"> {row.reason.replace(/_/g, ' ')}</span>}</> },
										{ name: 'Account', cell: (row) => row.account || row.org },
										{ name: 'Job', cell: (row) => (row.job ? <Link href={to(['o', row.org, 'jobs', row.job])}>{row.job}</Link> : '') },
										{ name: 'Actor', cell: (row) => <>{row.actor}{row.login !== row.actor && <span class="muted"> by {row.login}</span>}</> },
										{ name: 'Detail', cell: (row) => (row.detail ? <details><summary>arguments</summary><pre>{JSON.stringify(row.detail, null, 1)}</pre></details> : '') }
									]}
									rows={rows}
									id={(row) => row.audit}
								/>
								{after != null && (
									<p>
										<button
											type="button"
											onClick={() => {
												read<List<Audit>>(address('/v1/audit', { ...query, after })).then(
													(answer) => {
														if (!answer) return;
														setKept([...rows, ...answer.value.data]);
														setNext(answer.value.next);
													},
													(error: unknown) => setProblem(error as Problem)
												);
											}}
										>
											Show older ones
										</button>
									</p>
								)}
							</>
						)
					}
				</Shown>
			)}
		</Page>
	);
}
