/*
 * drift.tsx: whether production scores as what was measured before: streams and
 * their rates, and the answers that failed.
 */
import { useMemo, useState } from 'preact/hooks';
import { address, newKey, request } from '../api';
import { Chart } from '../chart';
import { credits, percent } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, Empty, Field, Form, Lasts, Page, Section, Shown, Table, When } from '../parts';
import { useRole } from '../role';
import { Link, to, usePlace } from '../route';
import type { EvalAnswer, EvalObservation, EvalSet, EvalStream, List } from '../rows';
import { AccountChoice, useAccount } from './account';
import { asText, Said } from './evalrun';
import { score } from './evals';

const KINDS: Record<string, string> = { score: 'judge\'s score', truncation: 'answers cut short', refusal: 'answers refused', feedback: 'users\' feedback', complaint: 'complaints' };

/* A score as it is, a rate in percent. */
function value(one: EvalStream, text: string): string {
	return one.kind === 'score' || one.kind === 'feedback' ? score(text) : percent(credits(text));
}

function StreamChart(props: { of: EvalStream; rows: EvalObservation[] }) {
	const { rows } = props;
	const drawn = useMemo(
		() => ({
			times: rows.map((one) => Date.parse(one.observed_at) / 1000),
			z: rows.map((one) => credits(one.z)),
			lower: rows.map((one) => Math.max(0, credits(one.lower))),
			upper: rows.map((one) => Math.min(1, credits(one.upper)))
		}),
		[rows]
	);

	return (
		<Chart
			times={drawn.times}
			caption={`Weighted mean of the newest ${rows.length}, and its limits`}
			about={`The weighted mean of ${props.of.stream} is ${value(props.of, props.of.z)}; it should be ${value(props.of, props.of.mu)}, and ${props.of.signal ? 'is outside' : 'is within'} its limits.`}
			lines={[{ label: 'mean', values: drawn.z, look: 'line' }, { label: 'upper limit', values: drawn.upper, look: 'quiet' }, { label: 'lower limit', values: drawn.lower, look: 'quiet' }]}
		/>
	);
}

function MakeCase(props: { org: string; stream: string; of: EvalAnswer; sets: string[] }) {
	const one = props.of;
	const [set, setSet] = useState(props.sets[0] ?? '');
	const [rubric, setRubric] = useState('');
	const [key] = useState(newKey);

	return (
		<Ask button="Make it a case" title="A case of a live set">
			{(close) => (
				<Form
					label="Add it"
					send={async () => {
						await request('POST', '/v1/evals/cases', { org: props.org, stream: props.stream, request: one.request, set, more: rubric.trim() ? { rubric } : {} }, key);
						close();
						refreshAll();
					}}
					beside={<button type="button" class="plain" onClick={close}>Not now</button>}
				>
					<p>What was asked stays in the set, also when it is no longer kept here.</p>
					<pre class="said proof">{asText(one.input)}</pre>
					<div class="fields">
						<Field label="Set">
							{(id) => <select id={id} value={set} onChange={(event) => setSet(event.currentTarget.value)}>{props.sets.map((name) => <option key={name}>{name}</option>)}</select>}
						</Field>
						<Field label="A good answer has" wide help="empty: what the stream's judge looks for">
							{(id) => <input id={id} value={rubric} maxLength={2000} onInput={(event) => setRubric(event.currentTarget.value)} />}
						</Field>
					</div>
				</Form>
			)}
		</Ask>
	);
}

function why(one: EvalAnswer): string {
	return [
		one.complaint ? 'a complaint' : '',
		one.score !== null && credits(one.score) <= 0.5 ? `the judge gave ${score(one.score)}` : '',
		one.feedback !== null && credits(one.feedback) <= 0.5 ? `the user gave ${score(one.feedback)}` : '',
		one.finish_reason && one.finish_reason !== 'stop' ? `it ended by ${one.finish_reason}` : ''
	].filter(Boolean).join(', ');
}

function Failures(props: { org: string; stream: EvalStream }) {
	const role = useRole();
	const answers = useLive<List<EvalAnswer>>(address('/v1/evals/answers', { org: props.org, stream: props.stream.stream, limit: 25 }), 10000);
	const sets = useLive<List<EvalSet>>(role.may('eval.add_case_from') && role.session.scope === 'admin' ? address('/v1/evals/sets', { org: props.org }) : null, 30000);
	const live = (sets.data?.data ?? []).filter((one) => one.kind === 'live' && (one.permission === 'own' || one.permission === 'curate')).map((one) => one.set);

	return (
		<Shown live={answers}>
			{(list) =>
				list.data.length === 0 ? (
					<Empty><p>{props.stream.keep === null ? 'This stream keeps no inputs and outputs. set_stream() says for how long it does.' : 'Nothing that is kept has failed.'}</p></Empty>
				) : (
					<>
						{list.data.map((one) => (
							<article class="case" key={one.request}>
								<h3>{one.request} <span class="muted">{why(one)}</span></h3>
								<dl class="facts">
									<Said name="Asked" of={one.input} />
									<Said name="Answered" of={one.output} />
									<Said name="The user" of={one.comment} />
								</dl>
								<p class="actions">
									<span class="muted"><When at={one.kept_at} relative />, kept until <When at={one.expires_at} /></span>
									{one.case_name ? <span>is case {one.case_name} of {one.set}</span> : live.length > 0 && one.input !== null && <MakeCase org={props.org} stream={props.stream.stream} of={one} sets={live} />}
								</p>
							</article>
						))}
						{list.truncated && <p class="muted">These are the newest 25.</p>}
					</>
				)
			}
		</Shown>
	);
}

export function DriftPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const place = usePlace();
	const streams = useLive<List<EvalStream>>(address('/v1/evals/streams', { org: props.org, account }), 5000);
	const rows = streams.data?.data ?? [];
	const chosen = rows.find((one) => one.stream === place.query.get('stream')) ?? rows.find((one) => one.signal) ?? rows[0];
	const source = rows.find((one) => one.stream === (chosen?.source ?? chosen?.stream));
	const observations = useLive<List<EvalObservation>>(chosen ? address('/v1/evals/observations', { org: props.org, stream: chosen.stream, limit: 500 }) : null, 5000);

	return (
		<Page name="Drift" title="Drift" over={props.org + (account ? ` / ${account}` : '')} actions={<AccountChoice org={props.org} />}>
			<Shown live={streams}>
				{() =>
					chosen === undefined ? (
						<Empty>
							<p>Nothing of production is watched. <code>gpucredit_eval.set_stream()</code> makes a stream, with what an offline run has measured as its limits.</p>
						</Empty>
					) : (
						<Table
							caption="Streams and their rates"
							columns={[
								{ name: 'Stream', head: true, cell: (row: EvalStream) => <Link href={to(['o', props.org, 'drift'], { account: place.query.get('account') ?? undefined, stream: row.stream })} current={row === chosen}>{row.stream}</Link> },
								{ name: 'Of', cell: (row) => KINDS[row.kind] ?? row.kind },
								{ name: 'Now', number: true, cell: (row) => (row.t > 0 ? value(row, row.z) : '–') },
								{ name: 'Expected', number: true, cell: (row) => value(row, row.mu) },
								{ name: 'Observed', number: true, cell: (row) => row.t.toLocaleString('en') },
								{ name: 'Last', cell: (row) => <When at={row.last_at} relative /> },
								{ name: 'State', cell: (row) => (row.signal ? <span class="warn">drifts</span> : row.t > 0 ? 'within its limits' : 'nothing observed') }
							]}
							rows={rows}
							id={(row) => row.stream}
						/>
					)
				}
			</Shown>
			{chosen && (
				<Section
					title={chosen.stream}
					lead={<>{chosen.config}@{chosen.version}{chosen.baseline !== null && <>, against <Link href={to(['o', props.org, 'evals', chosen.baseline])}>run {chosen.baseline}</Link></>}{chosen.kind === 'score' && `, one request in ${chosen.every.toLocaleString('en')}`}{chosen.keep !== null && <>, kept for <Lasts of={chosen.keep} /></>}</>}
				>
					<Shown live={observations}>{(list) => (list.data.length > 1 ? <StreamChart of={chosen} rows={list.data} /> : <Empty><p>Its line begins with the second observation.</p></Empty>)}</Shown>
				</Section>
			)}
			{source && role.may('eval.kept_answers') && (
				<Section title="Answers that failed" lead={`of ${source.stream}`}>
					<Failures key={source.stream} org={props.org} stream={source} />
				</Section>
			)}
		</Page>
	);
}
