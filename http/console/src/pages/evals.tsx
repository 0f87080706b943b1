/*
 * evals.tsx: what versions of models score: by task over time with the line of
 * the gate, the runs, the sets and the judges.
 */
import { useMemo } from 'preact/hooks';
import { address } from '../api';
import { Chart } from '../chart';
import { credits, dayOf } from '../format';
import { useLive } from '../live';
import { Chips, Empty, Money, Page, Section, Shown, State, Table, When } from '../parts';
import { go, Link, to, usePlace } from '../route';
import type { EvalConfig, EvalJudge, EvalRun, EvalScore, EvalSet, List } from '../rows';
import { AccountChoice, useAccount, withQuery } from './account';

/* A score or a coefficient, from 0 to 1. */
export function score(text: string | null | undefined): string {
	return text === null || text === undefined ? '–' : credits(text).toFixed(3);
}

const PASSES: Record<string, string> = { pass: 'passes', warn: 'warns', block: 'blocks', inconclusive: 'undecided' };

export function Verdict(props: { of: string | null }) {
	if (props.of === null) return <span class="muted">–</span>;
	return <span class={props.of === 'pass' ? undefined : 'warn'}>{PASSES[props.of] ?? props.of}</span>;
}

/* Whether a gate's task passes, and why it does not. */
export function Passes(props: { of: boolean | null; reason?: string; blocking: boolean }) {
	if (props.of === true) return <>passes</>;
	return (
		<span class={props.blocking ? 'warn' : 'muted'}>
			{props.of === null ? `undecided: ${(props.reason ?? '').replace(/_/g, ' ')}` : `${(props.reason ?? 'below the gate').replace(/_/g, ' ')}${props.blocking ? '' : ', advisory'}`}
		</span>
	);
}

function TaskChart(props: { rows: EvalScore[]; task: string }) {
	const drawn = useMemo(() => {
		const rows = props.rows.filter((one) => one.task === props.task && one.score !== null);

		return { rows, times: rows.map((one) => Date.parse(one.started_at) / 1000), scores: rows.map((one) => credits(one.score)), gate: rows.map((one) => credits(one.threshold)) };
	}, [props.rows, props.task]);
	const last = drawn.rows[drawn.rows.length - 1];

	if (drawn.rows.length < 2) return null;
	return (
		<Chart
			times={drawn.times}
			caption={`Score of ${props.task}, from 0 to 1`}
			about={`The score of ${props.task} in ${drawn.rows.length} runs; the last, of ${last?.model}, is ${score(last?.score)}, and the gate asks for ${score(last?.threshold)}. The table below has the numbers.`}
			lines={[{ label: 'score', values: drawn.scores, look: 'line' }, { label: 'gate', values: drawn.gate, look: 'quiet' }]}
		/>
	);
}

function Scores(props: { org: string; config: string; account: string }) {
	const place = usePlace();
	const scores = useLive<List<EvalScore>>(address('/v1/evals/scores', { org: props.org, config: props.config, account: props.account, limit: 100 }), 10000);

	return (
		<Shown live={scores}>
			{(list) => {
				const tasks = [...new Set(list.data.map((one) => one.task))].sort();
				const task = tasks.includes(place.query.get('task') ?? '') ? (place.query.get('task') ?? '') : (tasks[0] ?? '');
				const rows = list.data.filter((one) => one.task === task).reverse();

				if (list.data.length === 0) return <Empty><p>No run of this config has finished. Its scores will be here.</p></Empty>;
				return (
					<>
						{tasks.length > 1 && <div class="filters"><Chips label="Task" value={task} options={tasks.map((one) => ({ value: one, name: one }))} change={(value) => go(withQuery('task', value), true)} /></div>}
						<TaskChart rows={list.data} task={task} />
						<Table
							caption={`Scores of ${task}, newest first`}
							columns={[
								{ name: 'Run', head: true, cell: (row: EvalScore) => <Link href={to(['o', props.org, 'evals', row.run])}>{row.run}</Link> },
								{ name: 'Model', cell: (row) => row.model },
								{ name: 'Started', cell: (row) => <When at={row.started_at} /> },
								{ name: 'Score', number: true, cell: (row) => score(row.score) },
								{ name: 'Gate', number: true, cell: (row) => score(row.threshold) },
								{ name: 'Baseline', number: true, cell: (row) => score(row.baseline) },
								{ name: 'Result', cell: (row) => <Passes of={row.passes} reason={row.reason} blocking={row.blocking} /> }
							]}
							rows={rows.slice(0, 10)}
							id={(row) => row.run}
						/>
					</>
				);
			}}
		</Shown>
	);
}

export function RunTable(props: { org: string; rows: EvalRun[] }) {
	return (
		<Table
			caption="Runs, newest first"
			columns={[
				{ name: 'Run', head: true, cell: (row: EvalRun) => <Link href={to(['o', props.org, 'evals', row.run])}>{row.run}</Link> },
				{ name: 'Model', cell: (row) => row.model },
				{ name: 'Config', cell: (row) => `${row.config}@${row.version}` },
				{ name: 'Purpose', cell: (row) => row.purpose.replace(/_/g, ' ') },
				{ name: 'State', cell: (row) => <State of={row.state} /> },
				{ name: 'Verdict', cell: (row) => <Verdict of={row.verdict} /> },
				{ name: 'Cost', number: true, cell: (row) => <Money of={row.captured} /> },
				{ name: 'Started', cell: (row) => <><When at={row.started_at} relative /> <span class="muted">by {row.started_by}</span></> }
			]}
			rows={props.rows}
			id={(row) => row.run}
		/>
	);
}

function Judges(props: { org: string }) {
	const judges = useLive<List<EvalJudge>>(address('/v1/evals/judges', { org: props.org }), 30000);

	return (
		<Section title="Judges" lead="a gate decides only with a judge that agrees with people">
			<Shown live={judges}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>No config has a judge. Checks alone decide.</p></Empty>
					) : (
						<Table
							caption="Judges and their calibration"
							columns={[
								{ name: 'Judge', head: true, cell: (row: EvalJudge) => row.judge.replace(/#.*/, '') },
								{ name: 'Configs', cell: (row) => row.configs.join(', ') },
								{ name: 'Status', cell: (row) => <span class={row.status === 'calibrated' ? undefined : 'warn'}>{row.status}</span> },
								{ name: 'Kappa', number: true, cell: (row) => (row.kappa_weighted === null ? '–' : `${score(row.kappa_weighted)} (${score(row.kappa_low)} to ${score(row.kappa_high)})`) },
								{ name: 'Agreement', number: true, cell: (row) => score(row.agreement) },
								{ name: 'Bias', number: true, cell: (row) => score(row.bias) },
								{ name: 'Answers', number: true, cell: (row) => (row.n === null ? '–' : `${row.n} by ${row.raters} people`) },
								{ name: 'Until', cell: (row) => dayOf(row.status === 'calibrated' || row.status === 'lapsed' ? row.lapses_at : null) }
							]}
							rows={list.data}
							id={(row) => row.judge}
						/>
					)
				}
			</Shown>
		</Section>
	);
}

function Sets(props: { org: string }) {
	const sets = useLive<List<EvalSet>>(address('/v1/evals/sets', { org: props.org }), 30000);

	return (
		<Section title="Sets">
			<Shown live={sets}>
				{(list) =>
					list.data.length === 0 ? (
						<Empty><p>There is no set. <code>gpucredit-eval import</code> makes one from a file.</p></Empty>
					) : (
						<Table
							caption="Golden sets"
							columns={[
								{ name: 'Set', head: true, cell: (row: EvalSet) => row.set },
								{ name: 'Kind', cell: (row) => row.kind.replace(/_/g, ' ') },
								{ name: 'Version', number: true, cell: (row) => row.version ?? '–' },
								{ name: 'Cases', number: true, cell: (row) => row.version_cases?.toLocaleString('en') ?? '–' },
								{ name: 'Frozen', cell: (row) => <When at={row.frozen_at} relative /> },
								{ name: 'You may', cell: (row) => (row.permission === 'own' ? 'do everything' : row.permission) }
							]}
							rows={list.data}
							id={(row) => row.set}
						/>
					)
				}
			</Shown>
		</Section>
	);
}

export function EvalsPage(props: { org: string }) {
	const account = useAccount(props.org);
	const place = usePlace();
	const configs = useLive<List<EvalConfig>>(address('/v1/evals/configs', { org: props.org }), 30000);
	const runs = useLive<List<EvalRun>>(address('/v1/evals/runs', { org: props.org, account, limit: 25 }), 5000);
	const names = (configs.data?.data ?? []).filter((one) => one.runs > 0).map((one) => one.config);
	const config = names.includes(place.query.get('config') ?? '') ? (place.query.get('config') ?? '') : (runs.data?.data[0]?.config ?? names[0]);

	return (
		<Page name="Evals" title="Evals" over={props.org + (account ? ` / ${account}` : '')} actions={<AccountChoice org={props.org} />}>
			{names.length > 1 && <div class="filters"><Chips label="Config" value={config ?? ''} options={names.map((one) => ({ value: one, name: one }))} change={(value) => go(withQuery('config', value), true)} /></div>}
			{config !== undefined && (
				<Section title={`Scores of ${config}`} lead="runs that have finished">
					<Scores key={config} org={props.org} config={config} account={account} />
				</Section>
			)}
			<Section title="Runs">
				<Shown live={runs}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Nothing was measured yet. <code>gpucredit-eval run</code>, or a job of CI, starts a run.</p></Empty>
						) : (
							<>
								<RunTable org={props.org} rows={list.data} />
								{list.truncated && <p class="muted">These are the newest 25.</p>}
							</>
						)
					}
				</Shown>
			</Section>
			<Judges org={props.org} />
			<Sets org={props.org} />
		</Page>
	);
}
