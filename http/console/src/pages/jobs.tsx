/*
 * jobs.tsx: an organisation's jobs, newest first.  Only the rows in sight exist
 * in the page, and they are kept current.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { address, Problem, read } from '../api';
import { accountName, duration, moneyParts, micro } from '../format';
import { useLive } from '../live';
import { Chips, Empty, Page, ProblemNote, State, When } from '../parts';
import { useRole } from '../role';
import { go, Link, to, usePlace } from '../route';
import type { Job, List } from '../rows';
import { AccountChoice, useAccount, withQuery } from './account';

const PAGE = 200;
const STATES: Record<string, string[]> = {
	waiting: ['queued', 'unfunded'],
	running: ['starting', 'running', 'stopping'],
	completed: ['completed'],
	failed: ['failed', 'timeout'],
	cancelled: ['cancelled']
};

function Row(props: { org: string; job: Job }) {
	const { job } = props;
	const [amount, rest] = moneyParts(micro(job.used ?? job.held));

	return (
		<Link class="row" href={to(['o', props.org, 'jobs', job.job])} label={`Job ${job.job}, ${job.request}, ${job.state}`}>
			<span><b>{job.job}</b></span>
			<span><State of={job.state} /></span>
			<span title={accountName(job.account)}>{job.account || props.org}</span>
			<span title={job.request}>{job.request}</span>
			<span class="muted">{job.tier.replace(/_/g, ' ')}</span>
			<span class="right">{job.elapsed ? duration(job.elapsed) : job.state === 'queued' ? <When at={job.submitted_at} /> : '–'}</span>
			<span class="right">{job.ended_at ? <When at={job.ended_at} /> : <>{amount}<small>{rest}</small></>}</span>
		</Link>
	);
}

export function JobsPage(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const place = usePlace();
	const filter = place.query.get('state') ?? '';
	const query = { org: props.org, account, state: STATES[filter], limit: PAGE };
	const first = address('/v1/jobs', query);
	const newest = useLive<List<Job>>(first, 2000);
	const [jobs, setJobs] = useState<Job[]>([]);
	/* the last job of the last page that has come; null: there are no more */
	const [more, setMore] = useState<number | null | undefined>(undefined);
	const [problem, setProblem] = useState<Problem | null>(null);
	const [sight, setSight] = useState({ top: 0, height: 600 });
	const box = useRef<HTMLDivElement>(null);
	const loading = useRef(false);
	const height = window.matchMedia('(max-width: 52rem)').matches ? 68 : 40;

	/* what comes replaces what is known of the same jobs */
	const merge = useCallback((rows: Job[]) => {
		setJobs((old) => {
			const known = new Map(old.map((one) => [one.job, one]));

			rows.forEach((one) => known.set(one.job, one));
			return [...known.values()].sort((a, b) => b.job - a.job);
		});
	}, []);

	useEffect(() => {
		setJobs([]);
		setMore(undefined);
		box.current?.scrollTo(0, 0);
	}, [first]);
	useEffect(() => {
		if (!newest.data) return;
		const page = newest.data;

		setJobs((old) => {
			/* jobs that left the filter are no longer in the newest page */
			const last = page.data[page.data.length - 1]?.job ?? 0;
			const older = page.truncated ? old.filter((one) => one.job < last) : [];

			return [...page.data, ...older];
		});
		setMore((old) => (old === undefined ? page.next : old));
	}, [newest.data]);

	const start = Math.max(0, Math.floor(sight.top / height) - 10);
	const end = Math.min(jobs.length, Math.ceil((sight.top + sight.height) / height) + 10);
	const above = jobs[start - 1]?.job;

	/* the next page, when the end comes into sight */
	useEffect(() => {
		if (more == null || end < jobs.length - 40 || loading.current) return;
		loading.current = true;
		read<List<Job>>(address('/v1/jobs', { ...query, after: more })).then(
			(answer) => {
				if (answer) {
					merge(answer.value.data);
					setMore(answer.value.next);
				}
				setProblem(null);
				loading.current = false;
			},
			(error: unknown) => {
				setProblem(error as Problem);
				loading.current = false;
			}
		);
	}, [more, end, jobs.length]);
	/* rows in sight that are past the newest page stay current, too */
	const inSight = useLive<List<Job>>(start > PAGE - 20 && above !== undefined ? address('/v1/jobs', { ...query, limit: 60, after: above }) : null, 3000);

	useEffect(() => {
		if (inSight.data) merge(inSight.data.data);
	}, [inSight.data]);
	useEffect(() => {
		if (box.current) setSight({ top: box.current.scrollTop, height: box.current.clientHeight });
	}, [jobs.length > 0]);

	return (
		<Page
			name="Jobs"
			title="Jobs"
			over={props.org + (account ? ` / ${account}` : '')}
			actions={
				<>
					<AccountChoice org={props.org} />
					{role.may('reserve') && <Link class="button main" href={to(['o', props.org, 'submit'])}>Submit a job</Link>}
				</>
			}
		>
			<div class="filters">
				<Chips
					label="State"
					value={filter}
					change={(value) => go(withQuery('state', value), true)}
					options={[{ value: '', name: 'All' }, ...Object.keys(STATES).map((name) => ({ value: name, name: name.replace(/^./, (c) => c.toUpperCase()) }))]}
				/>
				<form
					onSubmit={(event) => {
						const number = new FormData(event.currentTarget).get('job');

						event.preventDefault();
						if (/^\d+$/.test(String(number))) go(to(['o', props.org, 'jobs', String(number)]));
					}}
				>
					<input name="job" inputMode="numeric" pattern="\d+" placeholder="Job number" aria-label="Go to the job of a number" size={11} />
				</form>
			</div>
			{(newest.problem ?? problem) && <ProblemNote problem={(newest.problem ?? problem) as Problem} again={newest.again} />}
			{newest.data && jobs.length === 0 ? (
				filter === '' ? (
					<Empty>
						<p>No job was submitted yet.</p>
						<p>{role.may('reserve') ? <Link href={to(['o', props.org, 'submit'])}>Submit the first one</Link> : 'Jobs appear here as soon as somebody submits one.'}</p>
					</Empty>
				) : (
					<Empty>
						<p>No job is {filter}. <button type="button" class="plain" onClick={() => go(withQuery('state', ''), true)}>Show all jobs</button></p>
					</Empty>
				)
			) : (
				<>
					<div class="list-head" aria-hidden="true">
						<span>Job</span><span>State</span><span>Account</span><span>Request</span><span>Tier</span><span class="right">Ran</span><span class="right">Cost or end</span>
					</div>
					<div
						class="list"
						ref={box}
						role="region"
						aria-label={`Jobs, newest first: ${jobs.length}${more == null ? '' : ' and more'}`}
						tabIndex={0}
						onScroll={(event) => setSight({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
					>
						<div style={{ height: `${jobs.length * height}px`, position: 'relative' }}>
							{jobs.slice(start, end).map((job, i) => (
								<div key={job.job} style={{ position: 'absolute', left: 0, right: 0, top: `${(start + i) * height}px` }}>
									<Row org={props.org} job={job} />
								</div>
							))}
						</div>
					</div>
					<p class="muted">{jobs.length.toLocaleString('en')} jobs{more == null ? '' : ' so far; more come as you scroll'}.</p>
				</>
			)}
		</Page>
	);
}
