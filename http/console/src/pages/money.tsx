/*
 * money.tsx: issuing credit to an organisation, and refunding what a job cost.
 */
import { useState } from 'preact/hooks';
import { address, newKey, request } from '../api';
import { accountName, micro, moneyText } from '../format';
import { refreshAll, useLive } from '../live';
import { Field, Form, Money, Page, Section, Tile, Tiles } from '../parts';
import { useRole } from '../role';
import { Link, to } from '../route';
import type { Account, Balance, Job, List } from '../rows';

function Issue(props: { org: string }) {
	const role = useRole();
	const accounts = useLive<List<Account>>(role.may('http.accounts') ? address('/v1/accounts', { org: props.org }) : null, 30000);
	const [account, setAccount] = useState('');
	const [amount, setAmount] = useState('');
	const [kind, setKind] = useState('paid');
	const [memo, setMemo] = useState('');
	const [reference, setReference] = useState('');
	const [days, setDays] = useState('');

	return (
		<Section title="Issue credit">
			<Form
				label="Issue"
				disabled={!/^\d+(\.\d{1,6})?$/.test(amount) || reference.trim() === '' || memo.trim() === ''}
				send={async () => {
					const answer = await request<{ bucket: number; replayed: boolean }>('POST', '/v1/credits', {
						org: props.org, account, key: reference.trim(), amount, kind, memo: memo.trim(),
						...(days ? { valid_for: `P${Number(days)}D` } : {})
					});

					refreshAll();
					if (answer.replayed) return `Bucket ${answer.bucket} was issued under this reference before. Nothing was issued now.`;
					return <>{moneyText(micro(amount))} are in bucket {answer.bucket}. <Link href={to(['o', props.org, 'credit'])}>Look at the credit</Link></>;
				}}
			>
				<div class="fields">
					<Field label="Credits">{(id) => <input id={id} inputMode="decimal" required value={amount} onInput={(event) => setAmount(event.currentTarget.value)} />}</Field>
					<Field label="Reference" help="payment or invoice; the same one issues once only">{(id) => <input id={id} required value={reference} onInput={(event) => setReference(event.currentTarget.value)} />}</Field>
					<Field label="Kind">
						{(id) => (
							<select id={id} value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
								<option value="paid">paid</option>
								<option value="promo">promo</option>
								<option value="grant">grant</option>
							</select>
						)}
					</Field>
					<Field label="To">
						{(id) => (
							<select id={id} value={account} onChange={(event) => setAccount(event.currentTarget.value)}>
								{(accounts.data?.data ?? [{ account: '' } as Account]).map((one) => <option key={one.account} value={one.account}>{accountName(one.account)}</option>)}
							</select>
						)}
					</Field>
					<Field label="Good for days" help="Leave it empty for credit that never expires.">{(id) => <input id={id} type="number" min="1" value={days} onInput={(event) => setDays(event.currentTarget.value)} />}</Field>
					<Field label="Reason" wide help="stays with the credit and in the audit log">{(id) => <input id={id} required value={memo} onInput={(event) => setMemo(event.currentTarget.value)} />}</Field>
				</div>
			</Form>
		</Section>
	);
}

function Refund(props: { org: string }) {
	const [number, setNumber] = useState('');
	const [amount, setAmount] = useState('');
	const [reason, setReason] = useState('');
	const [key, setKey] = useState(newKey);
	const job = useLive<Job>(/^\d+$/.test(number) ? address(`/v1/jobs/${number}`, { org: props.org }) : null, 10000);

	return (
		<Section title="Refund" lead="spent credit returns to the buckets that it came from">
			<Form
				label="Refund"
				danger
				disabled={!job.data || amount === '' || reason.trim() === ''}
				send={async () => {
					const answer = await request<{ refunded: string; lapsed: string }>('POST', `/v1/jobs/${number}/refund`, { org: props.org, amount, reason: reason.trim() }, key);

					setKey(newKey());
					refreshAll();
					return `${moneyText(micro(answer.refunded))} were refunded${micro(answer.lapsed) > 0n ? `, of which ${moneyText(micro(answer.lapsed))} went to buckets that are over` : ''}.`;
				}}
			>
				<div class="fields">
					<Field label="Job" warn={number !== '' && job.problem ? job.problem.message : undefined} help={job.data ? `${job.data.request}, ${job.data.state}` : 'its number'}>
						{(id) => <input id={id} inputMode="numeric" value={number} onInput={(event) => setNumber(event.currentTarget.value)} />}
					</Field>
					<Field label="Credits" help="at most what it was billed">{(id) => <input id={id} inputMode="decimal" value={amount} onInput={(event) => setAmount(event.currentTarget.value)} />}</Field>
					<Field label="Reason" wide help="for the audit log">{(id) => <input id={id} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}</Field>
				</div>
			</Form>
		</Section>
	);
}

export function MoneyPage(props: { org: string }) {
	const role = useRole();
	const balance = useLive<Balance>(address('/v1/balance', { org: props.org }), 4000);

	return (
		<Page name="Issue and refund" title="Issue and refund" over={props.org}>
			{balance.data && (
				<Tiles>
					<Tile name="Available"><Money of={balance.data.available} /></Tile>
					<Tile name="Held"><Money of={balance.data.held} /></Tile>
					<Tile name="Spent"><Money of={balance.data.spent} /></Tile>
				</Tiles>
			)}
			<Issue org={props.org} />
			{role.may('refund') && <Refund org={props.org} />}
		</Page>
	);
}
