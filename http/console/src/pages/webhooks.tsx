/*
 * webhooks.tsx: addresses to which events are sent, and what became of them.
 */
import { useState } from 'preact/hooks';
import { address, newKey, request } from '../api';
import { accountName } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, Chips, Empty, Field, Form, Page, Section, Shown, Table, When } from '../parts';
import { useRole } from '../role';
import { go, Link, to } from '../route';
import type { Delivery, List, Webhook } from '../rows';
import { AccountChoice, useAccount } from './account';

const KINDS = ['job.queued', 'job.started', 'job.requeued', 'job.ended', 'budget.threshold', 'balance.low', 'balance.top_up', 'balance.top_up_failed', 'credit.expiring', 'spend.high',
	'allocation.requested', 'allocation.granted', 'allocation.denied'];

function state(one: Webhook): string {
	if (one.disabled_at) return `disabled: ${(one.disabled_why ?? '').replace(/_/g, ' ')}`;
	if (one.failing_since) return 'fails';
	return one.delivered_at ? 'delivers' : 'has sent nothing yet';
}

/* What came of a call that answers a secret: it is shown this once. */
function Secret(props: { webhook: number; secret: string }) {
	return (
		<>
			Webhook {props.webhook}. Its secret, with which the receiver checks each message, is shown this once:
			<code class="secret" tabIndex={0}>{props.secret}</code>
		</>
	);
}

function Make(props: { org: string; account: string }) {
	const [url, setUrl] = useState('');
	const [label, setLabel] = useState('');
	const [kinds, setKinds] = useState<string[]>([]);
	const [template, setTemplate] = useState('');
	const [key, setKey] = useState(newKey);

	return (
		<Section title="Make a webhook" lead={`for the events of ${accountName(props.account)} and what is below it`}>
			<Form
				label="Make the webhook"
				disabled={url === ''}
				send={async () => {
					const made = await request<{ webhook: number; secret: string | null }>('POST', '/v1/webhooks', {
						org: props.org, account: props.account, url, label,
						...(kinds.length > 0 ? { kinds } : {}), ...(template ? { template } : {})
					}, key);

					setKey(newKey());
					refreshAll();
					return made.secret ? <Secret webhook={made.webhook} secret={made.secret} /> : `Webhook ${made.webhook} was made before.`;
				}}
			>
				<div class="fields">
					<Field label="Address" wide help="https:// and a host of the public internet, unless the operator allows another network">
						{(id) => <input id={id} type="url" required value={url} placeholder="https://example.com/hook" onInput={(event) => setUrl(event.currentTarget.value)} />}
					</Field>
					<Field label="Label" help="what you call it">{(id) => <input id={id} value={label} maxLength={200} onInput={(event) => setLabel(event.currentTarget.value)} />}</Field>
					<Field label="Form of the message">
						{(id) => (
							<select id={id} value={template} onChange={(event) => setTemplate(event.currentTarget.value)}>
								<option value="">standardwebhooks, signed</option>
								<option value="slack">a text for Slack</option>
							</select>
						)}
					</Field>
				</div>
				<fieldset class="checks">
					<legend>Events; none chosen means all</legend>
					{KINDS.map((kind) => (
						<label key={kind}>
							<input
								type="checkbox"
								checked={kinds.includes(kind)}
								onChange={(event) => setKinds(event.currentTarget.checked ? [...kinds, kind] : kinds.filter((one) => one !== kind))}
							/>
							{kind}
						</label>
					))}
				</fieldset>
			</Form>
		</Section>
	);
}

export function WebhooksPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const webhooks = useLive<List<Webhook>>(address('/v1/webhooks', { org: props.org, account }), 5000);

	return (
		<Page name="Webhooks" title="Webhooks" over={props.org + (account ? ` / ${account}` : '')} actions={<AccountChoice org={props.org} />}>
			<Section title="Where events are sent">
				<Shown live={webhooks}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Nothing is sent anywhere. A webhook tells a program of yours, or a channel of Slack, what happens here.</p></Empty>
						) : (
							<Table
								caption="Webhooks"
								columns={[
									{ name: 'Webhook', head: true, cell: (row: Webhook) => <Link href={to(['o', props.org, 'webhooks', String(row.webhook)], { account: row.account })}>{row.label || row.url}</Link> },
									{ name: 'Account', cell: (row) => accountName(row.account) },
									{ name: 'Events', cell: (row) => (row.kinds === null ? 'all' : row.kinds.length > 2 ? `${row.kinds.length} kinds` : row.kinds.join(', ')) },
									{ name: 'State', cell: (row) => state(row) },
									{ name: 'Waiting', number: true, cell: (row) => row.waiting },
									{ name: 'Last delivery', cell: (row) => <When at={row.delivered_at} relative /> }
								]}
								rows={list.data}
								id={(row) => row.webhook}
							/>
						)
					}
				</Shown>
			</Section>
			{role.may('http.set_webhook') && role.session.scope === 'admin' && <Make org={props.org} account={account} />}
		</Page>
	);
}

/* A button that changes a webhook at once; what it answers is in the list. */
function Act(props: { org: string; webhook: number; what: string; name: string; again: () => void }) {
	const [problem, setProblem] = useState('');

	return (
		<>
			<button
				type="button"
				onClick={() => void request('POST', `/v1/webhooks/${props.webhook}/${props.what}`, { org: props.org }, newKey())
					.then(() => { setProblem(''); props.again(); }, (error: Error & { hint?: string }) => setProblem(`${error.message}. ${error.hint ?? ''}`))}
			>
				{props.name}
			</button>
			{problem && <span role="alert" class="muted">{problem}</span>}
		</>
	);
}

function Deliveries(props: { org: string; webhook: string; may: boolean }) {
	const [shown, setShown] = useState('');
	const deliveries = useLive<List<Delivery>>(address(`/v1/webhooks/${props.webhook}/deliveries`, { org: props.org, state: shown, limit: 50 }), 4000);

	return (
		<Section title="Deliveries" lead="what waits, and what was sent within a week">
			<Chips
				label="State"
				value={shown}
				change={setShown}
				options={[{ value: '', name: 'all' }, { value: 'waiting', name: 'waiting' }, { value: 'delivered', name: 'delivered' }, { value: 'failed', name: 'failed' }]}
			/>
			<Shown live={deliveries}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>{shown ? `None is ${shown}.` : 'Nothing has happened since that it would send.'}</p></Empty>
					) : (
						<Table
							caption="Deliveries, newest first"
							columns={[
								{ name: 'Event', head: true, cell: (row: Delivery) => row.event },
								{ name: 'Kind', cell: (row) => row.kind },
								{ name: 'Job', cell: (row) => (row.job === null ? '' : <Link href={to(['o', props.org, 'jobs', String(row.job)])}>{row.job}</Link>) },
								{ name: 'State', cell: (row) => row.state },
								{ name: 'Attempts', number: true, cell: (row) => row.attempts },
								{ name: 'Answer', cell: (row) => row.problem ?? (row.status === null ? '' : String(row.status)) },
								{ name: 'Next', cell: (row) => (row.ended_at ? <When at={row.ended_at} relative /> : <When at={row.due_at} relative />) }
							]}
							rows={list.data}
							id={(row) => row.event}
						/>
					)
				}
			</Shown>
		</Section>
	);
}

export function WebhookPage(props: { org: string; webhook: string }) {
	const role = useRole();
	const webhooks = useLive<List<Webhook>>(address('/v1/webhooks', { org: props.org, account: useAccount(props.org) }), 5000);
	const may = role.may('http.disable_webhook') && role.session.scope === 'admin';
	const one = webhooks.data?.data.find((row) => String(row.webhook) === props.webhook);

	return (
		<Page name={`Webhook ${props.webhook}`} title={one?.label || `Webhook ${props.webhook}`} over={<Link href={to(['o', props.org, 'webhooks'])}>{`${props.org} / webhooks`}</Link>}>
			<Shown live={webhooks}>
				{() =>
					one === undefined ? (
						<Empty><p>There is no such webhook. It may have been removed.</p></Empty>
					) : (
						<>
							<dl class="facts">
								<dt>Address</dt><dd>{one.url}</dd>
								<dt>Account</dt><dd>{accountName(one.account)}</dd>
								<dt>Events</dt><dd>{one.kinds === null ? 'all' : one.kinds.join(', ')}</dd>
								<dt>State</dt><dd>{state(one)}{one.failing_since && <> since <When at={one.failing_since} relative /></>}</dd>
								<dt>Acts as</dt><dd>{one.role}</dd>
							</dl>
							{may && (
								<p class="actions gap">
									{one.disabled_at
										? <Act org={props.org} webhook={one.webhook} what="enable" name="Enable" again={refreshAll} />
										: <Act org={props.org} webhook={one.webhook} what="disable" name="Disable" again={refreshAll} />}
									{!one.disabled_at && <Act org={props.org} webhook={one.webhook} what="redeliver" name="Send what failed again" again={refreshAll} />}
									<Ask button="Another secret" title="Make another secret">
										{(close) => (
											<Form
												label="Make another secret"
												send={async () => {
													const made = await request<{ secret: string }>('POST', `/v1/webhooks/${one.webhook}/secret`, { org: props.org }, newKey());

													return <Secret webhook={one.webhook} secret={made.secret} />;
												}}
												beside={<button type="button" class="plain" onClick={close}>Close</button>}
											>
												<p>For a day both secrets sign, so the receiver can change over.</p>
											</Form>
										)}
									</Ask>
									<Ask button="Remove" title="Remove the webhook" class="danger">
										{(close) => (
											<Form
												label="Remove it"
												danger
												send={async () => {
													await request('DELETE', address(`/v1/webhooks/${one.webhook}`, { org: props.org }), undefined, newKey());
													refreshAll();
													go(to(['o', props.org, 'webhooks']));
												}}
												beside={<button type="button" class="plain" onClick={close}>Keep it</button>}
											>
												<p>Nothing more is sent to {one.url}, and its secret is gone.</p>
											</Form>
										)}
									</Ask>
								</p>
							)}
							<Deliveries org={props.org} webhook={props.webhook} may={may} />
						</>
					)
				}
			</Shown>
		</Page>
	);
}
