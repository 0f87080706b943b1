/*
 * evalrun.tsx: a run of evals: what each task scores, and the cases that
 * failed, beside another run if one is chosen.
 */
import { address } from '../api';
import { useLive } from '../live';
import { Empty, Field, Money, Page, Section, Shown, State, Table, Tile, Tiles, When } from '../parts';
import { useRole } from '../role';
import { go, Link, to, usePlace } from '../route';
import type { EvalGate, EvalPair, EvalRun, List } from '../rows';
import { withQuery } from './account';
import { Passes, score, Verdict } from './evals';

/* What somebody asked or answered, as text; an object as JSON. */
export function asText(value: unknown): string {
	return typeof value === 'string' ? value : JSON.stringify(value, null, 1);
}

export function Said(props: { name: string; of: unknown }) {
	if (props.of === null || props.of === undefined || props.of === '') return null;
	return (
		<>
			<dt>{props.name}</dt>
			<dd><pre class="said">{asText(props.of)}</pre></dd>
		</>
	);
}

function Answer(props: { title: string; score: string | null; output: string | null; error: string | null; failures: string | null; reasons: string[] | null }) {
	return (
		<div>
			<h4>{props.title}: {props.error ? 'error' : score(props.score)}</h4>
			<dl class="facts">
				<Said name="Answer" of={props.output} />
				<Said name="Error" of={props.error} />
				<Said name="Failed" of={props.failures} />
				<Said name="Judge" of={props.reasons?.join('\n')} />
			</dl>
		</div>
	);
}

function Cases(props: { org: string; a: EvalRun; b: EvalRun }) {
	const { a, b } = props;
	const alone = a.run === b.run;
	const pairs = useLive<List<EvalPair>>(address('/v1/evals/compare', { org: props.org, a: a.run, b: b.run, limit: 50 }), 15000);

	return (
		<Shown live={pairs}>
			{(list) =>
				list.data.length === 0 ? (
					<Empty>
						<p>No case failed of those that you may read.</p>
						{b.held_out && <p>Cases of held-out sets are shown to nobody.</p>}
					</Empty>
				) : (
					<>
						{list.data.map((one) => (
							<article class="case" key={one.case}>
								<h3>{one.name} <span class="muted">{one.task}</span></h3>
								<dl class="facts">
									<Said name="Asked" of={one.input} />
									<Said name="Expected" of={one.expected} />
								</dl>
								<div class="two">
									{!alone && <Answer title={`Run ${a.run}, ${a.model}`} score={one.score_a} output={one.output_a} error={one.error_a} failures={one.failures_a} reasons={one.reasons_a} />}
									<Answer title={alone ? 'Score' : `Run ${b.run}, ${b.model}`} score={one.score_b} output={one.output_b} error={one.error_b} failures={one.failures_b} reasons={one.reasons_b} />
								</div>
							</article>
						))}
						{list.truncated && <p class="muted">These are the 50 worst.</p>}
					</>
				)
			}
		</Shown>
	);
}

export function EvalRunPage(props: { org: string; run: string }) {
	const role = useRole();
	const place = usePlace();
	const number = Number(props.run);
	const found = useLive<List<EvalRun>>(address('/v1/evals/runs', { org: props.org, account: role.me.accounts.find((one) => one.org === props.org)?.account ?? '', after: number + 1, limit: 1 }), 5000);
	const run = found.data?.data[0]?.run === number ? found.data.data[0] : undefined;
	const others = useLive<List<EvalRun>>(run ? address('/v1/evals/runs', { org: props.org, account: role.me.accounts.find((one) => one.org === props.org)?.account ?? '', config: run.config, state: 'finished', limit: 50 }) : null, 15000);
	const gate = useLive<List<EvalGate>>(address(`/v1/evals/runs/${number}/gate`, { org: props.org }), 5000);
	const choice = (others.data?.data ?? []).filter((one) => one.run !== number);
	const chosen = Number(place.query.get('beside') ?? run?.baseline ?? 0);
	const beside = choice.find((one) => one.run === chosen);

	return (
		<Page
			name={`Run ${props.run}`}
			title={`Run ${props.run}`}
			over={<><Link href={to(['o', props.org, 'evals'])}>Evals</Link> of {props.org}</>}
			actions={role.may('eval.to_label', 'eval.label') && role.session.scope === 'admin' ? <Link class="button" href={to(['o', props.org, 'evals', props.run, 'label'])}>Rate answers</Link> : undefined}
		>
			<Shown live={found}>
				{() =>
					run === undefined ? (
						<Empty><p>There is no such run, or you may not see it.</p></Empty>
					) : (
						<Tiles>
							<Tile name="Verdict" note={run.purpose.replace(/_/g, ' ')}><Verdict of={run.verdict} /></Tile>
							<Tile name="State" note={run.problem?.replace(/_/g, ' ')}><State of={run.state} /></Tile>
							<Tile name="Model" note={`${run.config}@${run.version}`}>{run.model}</Tile>
							<Tile name="Cost" note={<>of <Money of={run.cap} /></>}><Money of={run.captured} /></Tile>
							<Tile name="Cases" note={<>started <When at={run.started_at} relative /></>}>{run.cases.toLocaleString('en')}</Tile>
						</Tiles>
					)
				}
			</Shown>
			<Section title="Tasks">
				<Shown live={gate}>
					{(list) => (
						<Table
							caption="Tasks and their gates"
							columns={[
								{ name: 'Task', head: true, cell: (row: EvalGate) => row.task },
								{ name: 'Score', number: true, cell: (row) => <>{score(row.score)}{row.stderr !== null && <small> ± {score(row.stderr)}</small>}{row.value !== null && <small> {row.metric} {score(row.value)}</small>}</> },
								{ name: 'Gate', number: true, cell: (row) => score(row.threshold) },
								{ name: 'Baseline', number: true, cell: (row) => score(row.baseline) },
								{ name: 'Cases', number: true, cell: (row) => row.n ?? '–' },
								{ name: 'Result', cell: (row) => <Passes of={row.passes} reason={row.reason} blocking={row.blocking} /> }
							]}
							rows={list.data}
							id={(row) => row.task}
						/>
					)}
				</Shown>
			</Section>
			{run && (
				<Section title="Cases that failed" lead={beside ? 'those that got worst first' : undefined}>
					{choice.length > 0 && (
						<div class="filters">
							<Field label="Beside">
								{(id) => (
									<select id={id} value={beside ? String(beside.run) : ''} onChange={(event) => go(withQuery('beside', event.currentTarget.value || '0'), true)}>
										<option value="">no other run</option>
										{choice.map((one) => <option key={one.run} value={String(one.run)}>run {one.run}, {one.model}</option>)}
									</select>
								)}
							</Field>
						</div>
					)}
					<Cases key={beside?.run ?? 0} org={props.org} a={beside ?? run} b={run} />
				</Section>
			)}
		</Page>
	);
}
