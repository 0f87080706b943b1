/*
 * requests.tsx: requests for credit and quota: asking, and deciding.
 */
import { useState } from 'preact/hooks';
import { address, newKey, request } from '../api';
import { accountName } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, Chips, Empty, Field, Form, Money, Page, Section, Shown, State, Table, When } from '../parts';
import { useRole } from '../role';
import type { AllocationRequest, Approver, List } from '../rows';
import { AccountChoice, useAccount } from './account';

const LIMITS: Record<string, string> = {
	max_gpus: 'devices', max_running: 'running jobs', max_queued: 'waiting jobs', max_cpu_milli: 'thousandths of a core', max_memory_mib: 'MiB of memory'
};

function Wanted(props: { of: AllocationRequest }) {
	const { quota } = props.of;

	if (quota === null) return <><Money of={props.of.credits} /> credits</>;
	return <>{Object.entries(LIMITS).filter(([name]) => quota[name] !== undefined).map(([name, what]) => `${quota[name]} ${what}`).join(', ')}{quota.gpu_type ? ` of ${quota.gpu_type}` : ''}</>;
}

/* What an approver says: each attempt has a key of its own, which a repeated click keeps. */
function Decide(props: { of: AllocationRequest }) {
	const one = props.of;
	const [decision, setDecision] = useState('grant');
	const [credits, setCredits] = useState(one.credits ?? '');
	const [note, setNote] = useState('');
	const [key, setKey] = useState(newKey);

	return (
		<Ask button="Decide" title={`Request ${one.request} of ${accountName(one.account)}`}>
			{(close) => (
				<Form
					label={decision === 'grant' ? 'Grant it' : 'Deny it'}
					danger={decision !== 'grant'}
					send={async () => {
						const answer = await request<{ state: string; reason: string | null }>('POST', `/v1/billing/requests/${one.request}/decide`, {
							decision, note, ...(decision === 'grant' && one.kind === 'credit' ? { credits } : {})
						}, key);

						setKey(newKey());
						refreshAll();
						if (answer.state !== 'open') {
							close();
							return;
						}
						return `It could not be granted: ${(answer.reason ?? '').replace(/_/g, ' ')}. It is still open.`;
					}}
					beside={<button type="button" class="plain" onClick={close}>Not now</button>}
				>
					<p class="said">{one.reason}</p>
					<div class="fields">
						<Field label="Decision">
							{(id) => (
								<select id={id} value={decision} onChange={(event) => setDecision(event.currentTarget.value)}>
									<option value="grant">grant</option>
									<option value="deny">deny</option>
								</select>
							)}
						</Field>
						{decision === 'grant' && one.kind === 'credit' && (
							<Field label="Credits" help={`${one.credits} were asked for`}>
								{(id) => <input id={id} inputMode="decimal" required value={credits} onInput={(event) => setCredits(event.currentTarget.value)} />}
							</Field>
						)}
						<Field label="Note" wide help="who asked reads it">{(id) => <input id={id} value={note} maxLength={500} onInput={(event) => setNote(event.currentTarget.value)} />}</Field>
					</div>
				</Form>
			)}
		</Ask>
	);
}

function TakeBack(props: { request: number }) {
	return (
		<Ask button="Take back" title={`Take request ${props.request} back`}>
			{(close) => (
				<Form
					label="Take it back"
					send={async () => {
						await request('POST', `/v1/billing/requests/${props.request}/withdraw`, {});
						close();
						refreshAll();
					}}
					beside={<button type="button" class="plain" onClick={close}>Keep it</button>}
				>
					<p>Nobody decides it any more.</p>
				</Form>
			)}
		</Ask>
	);
}

function Make(props: { org: string; account: string }) {
	const [kind, setKind] = useState('credit');
	const [amount, setAmount] = useState('');
	const [gpuType, setGpuType] = useState('');
	const [reason, setReason] = useState('');
	const [key, setKey] = useState(newKey);

	return (
		<Section title="Ask" lead={`for ${accountName(props.account)}`}>
			<Form
				label="Send the request"
				disabled={amount === '' || reason.trim() === ''}
				send={async () => {
					const made = await request<{ request: number }>('POST', '/v1/billing/requests', {
						org: props.org, account: props.account, reason,
						...(kind === 'credit' ? { credits: amount } : { max_gpus: Number(amount), ...(gpuType ? { gpu_type: gpuType } : {}) })
					}, key);

					setKey(newKey());
					setReason('');
					setAmount('');
					refreshAll();
					return `Request ${made.request} is open.`;
				}}
			>
				<div class="fields">
					<Field label="For">
						{(id) => (
							<select id={id} value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
								<option value="credit">credits</option>
								<option value="quota">devices at once</option>
							</select>
						)}
					</Field>
					<Field label={kind === 'credit' ? 'Credits' : 'Devices'}>
						{(id) => <input id={id} inputMode="decimal" pattern={kind === 'quota' ? '\\d+' : undefined} value={amount} onInput={(event) => setAmount(event.currentTarget.value)} />}
					</Field>
					{kind === 'quota' && <Field label="GPU type" help="empty: of any type">{(id) => <input id={id} value={gpuType} maxLength={63} onInput={(event) => setGpuType(event.currentTarget.value)} />}</Field>}
					<Field label="Reason" wide help="whoever decides reads it">
						{(id) => <textarea id={id} class="address" rows={3} maxLength={1500} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}
					</Field>
				</div>
			</Form>
		</Section>
	);
}

export function RequestsPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const [shown, setShown] = useState('');
	const requests = useLive<List<AllocationRequest>>(address('/v1/billing/requests', { org: props.org, account, state: shown, limit: 100 }), 4000);
	const approvers = useLive<List<Approver>>(role.may('billing.approvers') ? address('/v1/billing/approvers', { org: props.org }) : null, 30000);

	return (
		<Page name="Requests" title="Requests for credit and quota" over={props.org + (account ? ` / ${account}` : '')} actions={<AccountChoice org={props.org} />}>
			<Section title="Requests">
				<Chips
					label="State"
					value={shown}
					change={setShown}
					options={[{ value: '', name: 'all' }, ...['open', 'granted', 'denied', 'withdrawn'].map((one) => ({ value: one, name: one }))]}
				/>
				<Shown live={requests}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>{shown ? `None is ${shown}.` : 'Nobody has asked for anything. Who needs more credit or more devices asks below, and somebody above decides.'}</p></Empty>
						) : (
							<>
								<Table
									caption="Requests, newest first"
									columns={[
										{ name: 'Request', head: true, cell: (row: AllocationRequest) => row.request },
										{ name: 'Account', cell: (row) => accountName(row.account) },
										{ name: 'For', cell: (row) => <Wanted of={row} /> },
										{ name: 'Reason', cell: (row) => <span class="said">{row.reason}</span> },
										{ name: 'Asked', cell: (row) => <><When at={row.asked_at} relative /> <span class="muted">by {row.asked_by}</span></> },
										{
											name: 'State',
											cell: (row) => (
												<>
													<State of={row.state} />
													{row.granted !== null && <> <Money of={row.granted} /></>}
													{row.decided_by && <span class="muted"> by {row.decided_by}</span>}
													{row.note && <span class="muted said"> {row.note}</span>}
												</>
											)
										},
										{
											name: 'Action',
											cell: (row) => (
												<>
													{row.may_decide && role.may('billing.decide_allocation') && role.session.scope === 'admin' && <Decide key={row.request} of={row} />}
													{row.state === 'open' && row.asked_by === role.session.role && role.may('billing.withdraw_allocation') && role.session.scope === 'admin' && <TakeBack key={`back ${row.request}`} request={row.request} />}
												</>
											)
										}
									]}
									rows={list.data}
									id={(row) => row.request}
								/>
								{list.truncated && <p class="muted">These are the newest 100. Choose a state or an account to see others.</p>}
							</>
						)
					}
				</Shown>
			</Section>
			{role.may('billing.request_allocation') && role.session.scope === 'admin' && <Make org={props.org} account={account} />}
			{role.may('billing.approvers') && (
				<Section title="Who decides" lead="for the accounts below theirs">
					<Shown live={approvers}>
						{(list) =>
							list.data.length === 0 ? (
								<Empty><p>No approver is appointed here, so administrators decide.</p></Empty>
							) : (
								<Table
									caption="Approvers"
									columns={[
										{ name: 'Role', head: true, cell: (row: Approver) => row.role },
										{ name: 'For accounts below', cell: (row) => accountName(row.account) },
										{ name: 'Decides', cell: (row) => (row.quota ? 'credit and quota' : 'credit') }
									]}
									rows={list.data}
									id={(row) => `${row.account} ${row.role}`}
								/>
							)
						}
					</Shown>
				</Section>
			)}
		</Page>
	);
}
