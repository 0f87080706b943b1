/*
 * submit.tsx: submitting a job, with its price as one types.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { address, newKey, Problem, request } from '../api';
import { accountName, credits, duration, instant, micro, moneyText, parseSpan } from '../format';
import { refreshAll, useLive } from '../live';
import { Field, Form, Money, Page, Section, Table, When } from '../parts';
import { useQuote } from '../quote';
import { useRole } from '../role';
import { Link, to, usePlace } from '../route';
import type { Account, List, Price, Quote, Submission, TierFor } from '../rows';
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
	const unknown = prices.data && each.find((one) => one.price === null);
	const ready = parsed !== null && !unknown && (limit.trim() === '' || wall !== null);
	/* the script changes no price, and is not sent as it is typed */
	const { quote, problem } = useQuote(role.may('quote') && ready ? { ...body, spec: {} } : null, turn);

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
					{problem ? (
						<p class="warn">{problem.message}. {problem.hint}</p>
					) : quote ? (
						<QuoteLines quote={quote} />
					) : (
						<p class="muted">Its price appears here once devices and a time limit are given.</p>
					)}
				</div>
			</Form>
			{quote && quote.buckets.length > 0 && (
				<Section title="What pays for it" lead="in this order">
					<Table
						caption="Buckets, in the order in which they are spent"
						columns={[
							{ name: 'Kind', head: true, cell: (row: Quote['buckets'][number]) => row.kind },
							{ name: 'Bucket', number: true, cell: (row) => row.bucket },
							{ name: 'Account', cell: (row) => accountName(row.account) },
							{ name: 'Expires', cell: (row) => <When at={row.expires_at} /> },
							{ name: 'Pays', number: true, cell: (row) => <Money of={row.amount} /> }
						]}
						rows={quote.buckets}
						id={(row) => row.bucket}
					/>
				</Section>
			)}
		</Page>
	);
}

/* What it costs, whether it would be granted, and when it would start. */
function QuoteLines(props: { quote: Quote }) {
	const { quote } = props;
	const whole = quote.held === quote.cost || quote.cost === null;

	return (
		<>
			{quote.held !== null && <p><strong><Money of={quote.held} /></strong> {whole ? 'at most' : `for the first ${duration(quote.held_for)}`}</p>}
			<p class="muted">
				{quote.per_hour !== null && <>{moneyText(micro(quote.per_hour))} an hour{quote.offers.length > 1 && ', on the dearest of its types'}. </>}
				{!whole && <>{moneyText(micro(quote.cost))} if it runs for {duration(quote.wall_limit)}. </>}
				{micro(quote.discount) > 0n && <>Its tier takes {moneyText(micro(quote.discount))} off. </>}
				What is not used returns.
			</p>
			{quote.decision === 'denied' && (
				<p class="warn">
					As it stands it would be denied: {(quote.reason ?? '').replace(/_/g, ' ')}.
					{quote.payable !== null && <> Its account could pay {moneyText(micro(quote.payable))}{quote.budget_left !== null && <>, and its budgets leave {moneyText(micro(quote.budget_left))}</>}.</>}
				</p>
			)}
			{quote.starts !== null && <p class="muted">{startText(quote)}</p>}
		</>
	);
}

function startText(quote: Quote): string {
	const reason = (quote.waits_for ?? '').replace(/_/g, ' ');

	switch (quote.starts) {
		case 'now':
			return 'It would start now.';
		case 'soon':
			return `It would start by ${instant(quote.latest_at)}, when other jobs have left for it.`;
		case 'later':
			return `It would start at about ${instant(quote.expected_at)}${quote.latest_at ? `, at the latest at ${instant(quote.latest_at)}` : ''}.`;
		case 'elsewhere':
			return 'Another scheduler decides when it starts.';
		case 'never':
			return `It would never start: ${reason}.`;
		default:
			return `When it would start is not known yet: ${reason}.`;
	}
}
