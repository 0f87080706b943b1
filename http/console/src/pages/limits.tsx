/*
 * limits.tsx: budgets and quotas, and what is left of them.
 */
import { useState } from 'preact/hooks';
import { address, request } from '../api';
import { accountName, credits, dayOf, micro, moneyText, percent, short } from '../format';
import { refreshAll, useLive } from '../live';
import { Bar, Empty, Field, Form, Money, Page, Section, Shown } from '../parts';
import { useRole } from '../role';
import type { Account, Budget, List, Quota } from '../rows';
import { AccountChoice, useAccount } from './account';

/* The budgets of an account and of those below it, which are asked for one by one. */
function Budgets(props: { org: string; account: string }) {
	const role = useRole();
	const accounts = useLive<List<Account>>(role.may('http.accounts') ? address('/v1/accounts', { org: props.org }) : null, 30000);
	const below = (accounts.data?.data ?? [])
		.map((one) => one.account)
		.filter((one) => one !== props.account && (props.account === '' || one.startsWith(`${props.account}/`)))
		.slice(0, 20);

	return (
		<>
			<OnePath org={props.org} account={props.account} path />
			{below.map((account) => <OnePath key={account} org={props.org} account={account} />)}
		</>
	);
}

function OnePath(props: { org: string; account: string; path?: boolean }) {
	const budgets = useLive<List<Budget>>(address('/v1/budgets', { org: props.org, account: props.account }), 4000);

	return (
		<Shown live={budgets}>
			{(list) => {
				const rows = list.data.filter((one) => props.path || one.account === props.account);

				if (rows.length === 0 && props.path) return <Empty><p>No budget limits {props.account || props.org}. It may spend all of its credit.</p></Empty>;
				return rows.map((one) => {
					const used = micro(one.spent) + micro(one.reserved);

					return (
						<div class="limit" key={one.account + one.period}>
							<p>
								<b>{accountName(one.account)}</b>
								<span class="muted">
									a {one.period}{one.period !== 'none' && ` since ${dayOf(one.period_start)}`}, {one.hard ? 'hard: denies what is beyond' : 'soft: warns only'}
								</span>
							</p>
							<Bar part={credits(one.spent)} soft={credits(one.reserved)} whole={credits(one.amount)} label={`${moneyText(used)} of ${one.amount}`} />
							<p>
								<span><Money of={one.spent} /> spent, <Money of={one.reserved} /> held</span>
								<span><Money of={one.remaining} /> left of <Money of={one.amount} /> ({percent(credits(one.amount) > 0 ? Number(used) / 1e6 / credits(one.amount) : 0)} used)</span>
							</p>
						</div>
					);
				});
			}}
		</Shown>
	);
}

/* One limit of a quota, in units of so many of what the server counts. */
function Limit(props: { most: number | null; used: number; unit?: number; of: string }) {
	const unit = props.unit ?? 1;

	if (props.most === null) return null;
	return (
		<div class="measure">
			<Bar part={props.used / unit} whole={props.most / unit} label={`${short(props.used / unit)} of ${short(props.most / unit)} ${props.of}`} />
			<p><span>{props.of}</span><span class="num">{short(props.used / unit)} of {short(props.most / unit)}</span></p>
		</div>
	);
}

function Quotas(props: { org: string; account: string }) {
	const quotas = useLive<List<Quota>>(address('/v1/quotas', { org: props.org, account: props.account }), 4000);

	return (
		<Shown live={quotas}>
			{(list) =>
				list.data.length === 0 ? (
					<Empty><p>No quota limits how many devices or jobs there are at once.</p></Empty>
				) : (
					list.data.map((one) => (
						<div class="limit" key={`${one.account} ${one.gpu_type}`}>
							<p><b>{accountName(one.account)}</b><span class="muted">{one.gpu_type ?? 'any GPU type'}</span></p>
							<Limit most={one.max_gpus} used={credits(one.gpus)} of="devices" />
							<Limit most={one.max_nonpreemptible_gpus} used={credits(one.nonpreemptible_gpus)} of="devices of jobs that are not evicted" />
							<Limit most={one.max_running} used={one.running} of="jobs that run" />
							<Limit most={one.max_queued} used={one.queued} of="jobs that wait" />
							<Limit most={one.max_cpu_milli} used={one.cpu_milli} unit={1000} of="cores" />
							<Limit most={one.max_memory_mib} used={one.memory_mib} unit={1024} of="GiB of main memory" />
						</div>
					))
				)
			}
		</Shown>
	);
}

function SetBudget(props: { org: string; account: string }) {
	const [amount, setAmount] = useState('');
	const [period, setPeriod] = useState('month');
	const [hard, setHard] = useState(true);

	return (
		<Section title="Set a budget" lead={`of ${accountName(props.account)}`}>
			<Form
				label="Set the budget"
				disabled={amount === ''}
				send={async () => {
					await request('POST', '/v1/call/set_budget', { org: props.org, account: props.account, amount, period, hard });
					refreshAll();
					return 'The budget is set.';
				}}
			>
				<div class="fields">
					<Field label="Credits">{(id) => <input id={id} inputMode="decimal" value={amount} onInput={(event) => setAmount(event.currentTarget.value)} />}</Field>
					<Field label="Each">
						{(id) => (
							<select id={id} value={period} onChange={(event) => setPeriod(event.currentTarget.value)}>
								{['day', 'week', 'month', 'quarter', 'year', 'none'].map((one) => <option key={one} value={one}>{one === 'none' ? 'for good' : one}</option>)}
							</select>
						)}
					</Field>
					<Field label="Beyond it">
						{(id) => (
							<select id={id} value={hard ? 'deny' : 'warn'} onChange={(event) => setHard(event.currentTarget.value === 'deny')}>
								<option value="deny">jobs are denied</option>
								<option value="warn">an alert is raised</option>
							</select>
						)}
					</Field>
				</div>
			</Form>
		</Section>
	);
}

export function LimitsPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);

	return (
		<Page name="Budgets and quotas" title="Budgets and quotas" over={props.org + (account ? ` / ${account}` : '')} actions={<AccountChoice org={props.org} />}>
			<Section title="Budgets" lead="dark: spent, light: held for jobs"><Budgets org={props.org} account={account} /></Section>
			{role.may('http.quotas') && <Section title="Quotas" lead="what may be in use at once"><Quotas org={props.org} account={account} /></Section>}
			{role.may('set_budget') && <SetBudget org={props.org} account={account} />}
		</Page>
	);
}
