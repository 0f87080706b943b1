/*
 * label.tsx: rating answers by hand, one after the other, without knowing what
 * the judge or other people think of them.
 */
import { useState } from 'preact/hooks';
import { address, Problem, request } from '../api';
import { useLive } from '../live';
import { Empty, Page, ProblemNote, Shown } from '../parts';
import { useRole } from '../role';
import { Link, to } from '../route';
import type { EvalLabel, List } from '../rows';
import { Said } from './evalrun';

const MEANING = ['not at all', 'hardly', 'in part', 'mostly', 'entirely'];

export function LabelPage(props: { org: string; run: string }) {
	const role = useRole();
	const next = useLive<List<EvalLabel>>(address(`/v1/evals/runs/${Number(props.run)}/labels`, { org: props.org, limit: 1 }), 0);
	const [busy, setBusy] = useState(false);
	const [problem, setProblem] = useState<Problem | null>(null);
	const rate = async (one: EvalLabel, score: number) => {
		setBusy(true);
		setProblem(null);
		try {
			await request('POST', `/v1/evals/runs/${Number(props.run)}/labels`, { org: props.org, case: one.case, rater: role.session.role, score });
			next.again();
		} catch (error) {
			setProblem(error instanceof Problem ? error : new Problem(0, { title: String(error) }));
		}
		setBusy(false);
	};

	return (
		<Page name={`Rating run ${props.run}`} title="Rate answers" over={<><Link href={to(['o', props.org, 'evals', props.run])}>Run {props.run}</Link> of {props.org}</>}>
			<Shown live={next}>
				{(list) => {
					const one = list.data[0];

					if (!one)
						return <Empty><p>Nothing is left for you to rate in this run. A judge is calibrated by 30 answers that two people have rated.</p></Empty>;
					return (
						<article class="case" key={one.case}>
							<p class="muted" aria-live="polite">{one.rated} rated, {one.left_over} left</p>
							<dl class="facts">
								<Said name="Asked" of={one.input} />
								<Said name="Answer" of={one.output} />
								<Said name="Expected" of={one.expected} />
								<Said name="A good answer" of={one.rubric} />
							</dl>
							{problem && <ProblemNote problem={problem} />}
							<div class="rating" role="group" aria-label="How good is the answer?">
								{MEANING.map((word, i) => (
									<button type="button" key={word} disabled={busy} onClick={() => void rate(one, i + 1)}>
										<b>{i + 1}</b> {word}
									</button>
								))}
							</div>
						</article>
					);
				}}
			</Shown>
		</Page>
	);
}
