/*
 * submit.tsx: submitting a job, with its price as one types.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { address, newKey, Problem, request } from '../api';
import { accountName, credits, duration, micro, moneyText, parseSpan, seconds, short } from '../format';
import { refreshAll, useLive } from '../live';
import { Field, Form, Money, Page, Section, Table } from '../parts';
import { useRole } from '../role';
import { Link, to, usePlace } from '../route';
import type { Account, BucketFor, List, Price, Submission, TierFor } from '../rows';
import { useAccount } from './account';

const FIRST_SCRIPT = `#!/bin/bash
echo "hello from $(hostname), GPUs $CUDA_VISIBLE_DEVICES"
`;

/* Number of devices and types of a request such as "2xH100|A100" or "0.5xT4". */
export function parseRequest(text: string): { number: number; types: string[] } | null {
	const m = /^\s*(\d+(?:\.\d+)?)\s*x\s*([\w.|@ -]+)$/i.exec(text);

	if (!m) return null;
	return {
		number: Number(m[1]),
		types: (m[2] ?? '').split('|').map((one) => one.replace(/@.*/, '').trim()).filter(Boolean)
	};
}

/* The price in force of each type in a pool. */
export function priceOf(prices: Price[], type: string, pool: string): number | null {
	const now = Date.now();
	const best = prices
		.filter((one) => one.gpu_type === type && !one.spot && (one.pool === pool || one.pool === '') && Date.parse(one.effective_at) <= now)
		.sort((a, b) => b.pool.localeCompare(a.pool) || Date.parse(b.effective_at) - Date.parse(a.effective_at) || Date.parse(b.recorded_at) - Date.parse(a.recorded_at))[0];

	return best ? credits(best.per_gpu_hour) : null;
}

export function SubmitPage(props: { org: string }) {
	const role = useRole();
	const place = usePlace();
	const like = place.query.get('like');
	const own = useAccount(props.org);
	const earlier = useLive<Submission>(like ? address(`/v1/jobs/${encodeURIComponent(like)}/submission`, { org: props.org }) : null, 0);
	const [account, setAccount] = useState(own);
	const [devices, setDevices] = useState('');
	const [limit, setLimit] = useState('1 h');
	const [tier, setTier] = useState('standard_training');
	const [pool, setPool] = useState('default');
	const [name, setName] = useState('');
	const [retries, setRetries] = useState('3');
	const [script, setScript] = useState(FIRST_SCRIPT);
	const [rest, setRest] = useState<Record<string, unknown>>({});
	const [labels, setLabels] = useState<unknown>(undefined);
	const [turn, setTurn] = useState(0);

	useEffect(() => {
		const one = earlier.data;

		if (!one) return;
		const { script: program, name: called, ...others } = one.spec;

		setAccount(one.account);
		setDevices(one.request);
		setLimit(one.wall_limit ? duration(one.wall_limit) : '');
		setTier(one.tier);
		setPool(one.pool);
		setRetries(String(one.max_retries));
		setScript(typeof program === 'string' ? program : '');
		setName(typeof one.options.name === 'string' ? one.options.name : typeof called === 'string' ? called : '');
		setLabels(one.options.labels);
		setRest(others);
	}, [earlier.data]);
	const body = {
		org: props.org, account, request: devices, wall_limit: limit.trim() === '' ? null : parseSpan(limit), tier, pool, max_retries: Number(retries) || 0,
		spec: { ...rest, script, ...(name ? { name } : {}) },
		options: { ...(name ? { name } : {}), ...(labels ? { labels } : {}) }
	};
	/*
	 * The same content is sent under the same key, until the server has answered:
	 * whatever is lost on the way, one job comes of it.
	 */
	const key = useMemo(newKey, [JSON.stringify(body), turn]);
	const accounts = useLive<List<Account>>(role.may('http.accounts') ? address('/v1/accounts', { org: props.org }) : null, 30000);
	const tiers = useLive<List<TierFor>>(address('/v1/tiers', { org: props.org, account }), 30000);
	const prices = useLive<List<Price>>('/v1/prices', 30000);
	const types = useMemo(() => [...new Set((prices.data?.data ?? []).filter((one) => !one.spot).map((one) => one.gpu_type))].sort(), [prices.data]);

	useEffect(() => {
		if (devices === '' && types[0] && !like) setDevices(`1x${types[0]}`);
	}, [types.join()]);
	const parsed = parseRequest(devices);
	const wall = body.wall_limit;
	const each = parsed ? parsed.types.map((type) => ({ type, price: priceOf(prices.data?.data ?? [], type, pool) })) : [];
	const unknown = each.find((one) => one.price === null);
	const dearest = Math.max(0, ...each.map((one) => one.price ?? 0));
	const hours = wall ? seconds(wall) / 3600 : null;
	const amount = parsed && hours !== null && !unknown ? parsed.number * dearest * hours : null;
	const payers = useLive<List<BucketFor>>(
		role.may('buckets_for') && parsed && amount !== null ? address('/v1/buckets/for', { org: props.org, account, request: devices, tier, pool, amount: amount.toFixed(6) }) : null,
		10000
	);
	const covered = (payers.data?.data ?? []).reduce((sum, one) => sum + (one.pays ? credits(one.most ?? one.available) : 0), 0);

	return (
		<Page name="Submit a job" title="Submit a job" over={props.org}>
			<Form
				label="Submit"
				disabled={!parsed || (limit.trim() !== '' && wall === null)}
				send={async () => {
					const answer = await request<{ job: number; held: string }>('POST', '/v1/jobs', body, key).catch((error: unknown) => {
						/* a denial is stored under its key */
						if (error instanceof Problem && error.status >= 400 && error.status < 500) setTurn((n) => n + 1);
						throw error;
					});

					setTurn((n) => n + 1);
					refreshAll();
					return (
						<>
							Job {answer.job} waits for its devices; {moneyText(micro(answer.held))} is held for it.{' '}
							<Link href={to(['o', props.org, 'jobs', answer.job])}>Watch it</Link>
						</>
					);
				}}
			>
				<div class="fields">
					<Field label="Name" help="how lists of Slurm's commands name it">
						{(id) => <input id={id} value={name} maxLength={60} onInput={(event) => setName(event.currentTarget.value)} />}
					</Field>
					<Field label="Account">
						{(id) => (
							<select id={id} value={account} onChange={(event) => setAccount(event.currentTarget.value)}>
								{(accounts.data?.data ?? [{ account: own } as Account]).map((one) => (
									<option key={one.account} value={one.account} disabled={one.suspended}>{accountName(one.account)}</option>
								))}
							</select>
						)}
					</Field>
					<Field
						label="Devices"
						help={types.length > 0 ? `number x type, such as 2x${types[0]}; alternatives with |, half a device as 0.5x${types[0]}` : 'number x type'}
						warn={devices !== '' && !parsed ? 'Write number x type, such as 2xH100.' : unknown ? `There is no price for ${unknown.type}.` : undefined}
					>
						{(id) => <input id={id} value={devices} required spellcheck={false} onInput={(event) => setDevices(event.currentTarget.value)} />}
					</Field>
					<Field label="Time limit" help="such as 90 min, 4 h or 1:30; it is stopped then" warn={limit.trim() !== '' && wall === null ? 'Write a time such as 90 min or 4 h.' : undefined}>
						{(id) => <input id={id} value={limit} onInput={(event) => setLimit(event.currentTarget.value)} />}
					</Field>
					<Field label="Tier">
						{(id) => (
							<select id={id} value={tier} onChange={(event) => setTier(event.currentTarget.value)}>
								{(tiers.data?.data ?? [{ tier, allowed: true, rank: 0 }]).map((one) => (
									<option key={one.tier} value={one.tier} disabled={!one.allowed}>
										{one.tier.replace(/_/g, ' ')}{one.allowed ? '' : ' (not granted)'}
									</option>
								))}
							</select>
						)}
					</Field>
					<Field label="Retries" help="after failures">
						{(id) => <input id={id} type="number" min="0" max="1000" value={retries} onInput={(event) => setRetries(event.currentTarget.value)} />}
					</Field>
					<Field label="Script" wide help="runs on the first node; srun starts it on all of them">
						{(id) => <textarea id={id} spellcheck={false} value={script} onInput={(event) => setScript(event.currentTarget.value)} />}
					</Field>
				</div>
				<div class="quote" aria-live="polite">
					{amount === null || !parsed ? (
						<p class="muted">Its price appears here once devices and a time limit are given.</p>
					) : (
						<>
							<p><strong><Money of={BigInt(Math.round(amount * 1e6))} /></strong> at most</p>
							<p class="muted">
								{parsed.number} × {short(dearest)} an hour × {duration(wall)}
								{parsed.types.length > 1 && ', at the dearest of the types'}. It is held until the job ends; what is not used returns.
							</p>
							{payers.data && covered + 1e-6 < amount && <p class="warn">The credit that pays for it covers {short(covered)}. As it stands it would be denied.</p>}
						</>
					)}
				</div>
			</Form>
			{payers.data && payers.data.data.length > 0 && (
				<Section title="What pays for it" lead="in this order">
					<Table
						caption="Buckets, in the order in which they are spent"
						columns={[
							{ name: 'Kind', head: true, cell: (row: BucketFor) => row.kind },
							{ name: 'Bucket', number: true, cell: (row) => row.bucket },
							{ name: 'Available', number: true, cell: (row) => <Money of={row.available} /> },
							{ name: 'Pays', cell: (row) => (row.pays ? 'yes' : `no: ${(row.why ?? '').replace(/_/g, ' ')}`) }
						]}
						rows={payers.data.data.filter((one) => one.why !== 'empty' && one.why !== 'expired')}
						id={(row) => row.bucket}
					/>
				</Section>
			)}
		</Page>
	);
}
