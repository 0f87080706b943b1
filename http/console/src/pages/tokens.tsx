/*
 * tokens.tsx: the tokens of a role, and the browsers that are signed in with them.
 */
import { useState } from 'preact/hooks';
import { request } from '../api';
import { refreshAll, useLive } from '../live';
import { Empty, Field, Form, Page, Section, Shown, Table, When } from '../parts';
import { useRole } from '../role';
import type { Browser, List, Token } from '../rows';

function browserName(label: string): string {
	const name = /(Firefox|Edg|Chrome|Safari)\/(\d+)/.exec(label);
	const system = /(Windows|Mac OS X|Android|iPhone|Linux)/.exec(label);

	return name ? `${name[1] === 'Edg' ? 'Edge' : name[1]} ${name[2]}${system ? ` on ${system[1]}` : ''}` : label || 'unnamed';
}

function Issue() {
	const role = useRole();
	const [label, setLabel] = useState('');
	const [scope, setScope] = useState('read');
	const [days, setDays] = useState('90');
	const [owner, setOwner] = useState('');

	return (
		<Section title="Issue a token" lead="for a program, or to sign in elsewhere">
			<Form
				label="Issue the token"
				send={async () => {
					const answer = await request<{ token: number; secret: string; expires_at: string }>('POST', '/v1/tokens', {
						scope, label, ttl: `P${Number(days) || 90}D`, ...(owner ? { role: owner } : {})
					});

					refreshAll();
					return (
						<>
							Token {answer.token}. This is the only time that it is shown:
							<code class="secret" tabIndex={0}>{answer.secret}</code>
							Who has it can do what its scope says until it is revoked.
						</>
					);
				}}
			>
				<div class="fields">
					<Field label="Label" help="so that you know it later">{(id) => <input id={id} value={label} maxLength={200} onInput={(event) => setLabel(event.currentTarget.value)} />}</Field>
					<Field label="Scope">
						{(id) => (
							<select id={id} value={scope} onChange={(event) => setScope(event.currentTarget.value)}>
								<option value="read">read: changes nothing</option>
								<option value="label">label: also what people think of a model's answers</option>
								<option value="submit">submit: also jobs and their end</option>
								<option value="spend">spend: also holds of credit</option>
								<option value="admin">admin: all that the role may</option>
							</select>
						)}
					</Field>
					<Field label="Days">{(id) => <input id={id} type="number" min="1" max="3660" value={days} onInput={(event) => setDays(event.currentTarget.value)} />}</Field>
					{role.may('issue') && (
						<Field label="Role" help="Leave it empty for your own.">{(id) => <input id={id} value={owner} onInput={(event) => setOwner(event.currentTarget.value)} />}</Field>
					)}
				</div>
			</Form>
		</Section>
	);
}

function Tokens() {
	const role = useRole();
	const tokens = useLive<List<Token>>('/v1/tokens', 5000);
	const good = (tokens.data?.data ?? []).filter((one) => !one.revoked_at && Date.parse(one.expires_at) > Date.now());

	return (
		<Shown live={tokens}>
			{() =>
				good.length === 0 ? (
					<Empty><p>No token is good.</p></Empty>
				) : (
					<Table
						caption="Tokens that are good"
						columns={[
							{ name: 'Token', number: false, head: true, cell: (row: Token) => row.token },
							{ name: 'Label', cell: (row) => row.label || '–' },
							{ name: 'Role', cell: (row) => row.role },
							{ name: 'Scope', cell: (row) => row.scope },
							{ name: 'Used', cell: (row) => (row.used_at ? <When at={row.used_at} relative /> : 'never') },
							{ name: 'Ends', cell: (row) => <When at={row.expires_at} relative /> },
							...(role.may('http.revoke_token')
								? [{
									name: 'Revoke',
									cell: (row: Token) => (
										<button
											type="button"
											class="plain"
											aria-label={`Revoke token ${row.token}`}
											onClick={() => {
												if (row.token !== role.session.token || window.confirm('You are signed in with this token. Revoking it signs you out.'))
													void request('DELETE', `/v1/tokens/${row.token}`).then(refreshAll, refreshAll);
											}}
										>
											Revoke
										</button>
									)
								}]
								: [])
						]}
						rows={[...good].reverse()}
						id={(row) => row.token}
					/>
				)
			}
		</Shown>
	);
}

export function TokensPage() {
	const role = useRole();
	const browsers = useLive<List<Browser>>('/v1/sessions', 5000);

	return (
		<Page name="Tokens" title="Tokens" over={role.session.role}>
			<Section title="Good tokens"><Tokens /></Section>
			{role.may('http.issue_token') && <Issue />}
			<Section title="Signed in" lead="browsers that hold a session">
				<Shown live={browsers}>
					{(list) => (
						<Table
							caption="Browsers that are signed in"
							columns={[
								{ name: 'Browser', head: true, cell: (row: Browser) => <>{browserName(row.label)}{row.here && <span class="muted"> this one</span>}</> },
								{ name: 'Role', cell: (row) => row.role },
								{ name: 'Token', number: true, cell: (row) => row.token },
								{ name: 'Signed in', cell: (row) => <When at={row.created_at} relative /> },
								{ name: 'Ends', cell: (row) => <When at={row.expires_at} relative /> },
								...(role.may('http.end_session')
									? [{
										name: 'Sign out',
										cell: (row: Browser) =>
											row.here ? '' : (
												<button type="button" class="plain" aria-label={`Sign out browser ${row.session}`} onClick={() => void request('DELETE', `/v1/sessions/${row.session}`).then(refreshAll, refreshAll)}>
													Sign out
												</button>
											)
									}]
									: [])
							]}
							rows={list.data}
							id={(row) => row.session}
						/>
					)}
				</Shown>
			</Section>
		</Page>
	);
}
