/*
 * job.tsx: one job: where it stands, what it cost and may cost, what it prints,
 * and what became of it.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { address, newKey, Problem, read, request } from '../api';
import { accountName, credits, duration, instant, micro, moneyText, seconds, span } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, Bar, Chips, Empty, Field, Form, Money, Page, ProblemNote, Section, Shown, State, Table, Tile, Tiles, When } from '../parts';
import { useRole } from '../role';
import { Link, to } from '../route';
import type { Attempt, Check, HistoryLine, Job, List, LogPiece, Submission } from '../rows';

/* Waiting and running, to scale; each piece is in the table below as well. */
function Track(props: { job: Job; attempts: Attempt[] }) {
	const begin = Date.parse(props.job.submitted_at);
	const end = props.job.ended_at ? Date.parse(props.job.ended_at) : Date.now();
	const scale = (at: string | null) => (1000 * (Math.min(at ? Date.parse(at) : end, end) - begin)) / Math.max(end - begin, 1000);
	const runs = props.attempts.map((one) => ({ from: scale(one.started_at), to: scale(one.ended_at), one }));
	const words = runs.map((run) => `attempt ${run.one.attempt} ran ${duration(run.one.elapsed)}`).join(', ');

	return (
		<figure>
			<figcaption>
				<span>Waiting and running, from its submission to {props.job.ended_at ? 'its end' : 'now'}</span>
			</figcaption>
			<svg class="track" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label={`Timeline: ${words || 'it has not run yet'}`}>
				<rect class="wait" x="0" y="8" width="1000" height="8" />
				{runs.map((run) => (
					<rect key={run.one.attempt} class={run.one.outcome && run.one.outcome !== 'completed' ? 'run lost' : 'run'} x={run.from} y="2" width={Math.max(run.to - run.from, 3)} height="20">
						<title>{`attempt ${run.one.attempt}: ${run.one.outcome ?? 'running'}`}</title>
					</rect>
				))}
			</svg>
			<div class="ends" aria-hidden="true">
				<span>{instant(props.job.submitted_at)}</span>
				<span>{props.job.ended_at ? instant(props.job.ended_at) : 'now'}</span>
			</div>
		</figure>
	);
}

const DECODER = new TextDecoder('utf-8', { fatal: false });
const WORDS: Record<string, string> = {
	not_started: 'It has not run yet.',
	silent: 'The node does not answer at present.',
	unserved: 'The node\'s agent serves no output.',
	asked: 'Asking the node…'
};

/* The output as it comes: pieces of it are asked of the node one after another. */
function Logs(props: { org: string; job: Job }) {
	const { org, job } = props;
	const [stream, setStream] = useState('stdout');
	const [text, setText] = useState('');
	const [state, setState] = useState('asked');
	const [note, setNote] = useState('');
	const [problem, setProblem] = useState<Problem | null>(null);
	const pane = useRef<HTMLDivElement>(null);
	const lives = !job.ended_at;

	useEffect(() => {
		let stopped = false;
		let at = 0;
		let timer = 0;
		const later = (ms: number) => {
			if (!stopped) timer = window.setTimeout(() => void next(), ms);
		};
		const next = async () => {
			if (document.hidden) return later(2000);
			try {
				const query = { org, from_byte: at, stream };

				await request<LogPiece>('POST', `/v1/jobs/${job.job}/logs`, query);
				for (let i = 0; i < 25 && !stopped; i++) {
					const piece = (await read<LogPiece>(address(`/v1/jobs/${job.job}/logs`, query)))?.value;

					if (!piece || piece.state === 'asked' || piece.state === 'unasked') {
						await new Promise((done) => window.setTimeout(done, 200));
						continue;
					}
					setState(piece.state);
					setNote(piece.message ?? '');
					if (piece.state === 'answered' && piece.body) {
						const bytes = Uint8Array.from(atob(piece.body), (c) => c.charCodeAt(0));
						const first = piece.first_byte ?? at;

						if (first > at) setText((old) => `${old}\n… ${first - at} bytes were overwritten …\n`);
						at = first + bytes.length;
						setText((old) => (old + DECODER.decode(bytes)).slice(-400000));
						if (bytes.length >= 60000) return later(0);
					}
					if (piece.over) return undefined;
					break;
				}
				setProblem(null);
			} catch (error) {
				setProblem(error as Problem);
			}
			if (lives || at === 0) later(2000);
			return undefined;
		};

		setText('');
		setState('asked');
		void next();
		return () => {
			stopped = true;
			window.clearTimeout(timer);
		};
	}, [org, job.job, job.attempt, stream, lives]);
	useEffect(() => {
		const element = pane.current;

		if (element && element.scrollHeight - element.scrollTop - element.clientHeight < 200) element.scrollTop = element.scrollHeight;
	}, [text]);
	return (
		<>
			<div class="filters">
				<Chips label="Stream" value={stream} change={setStream} options={[{ value: 'stdout', name: 'Output' }, { value: 'stderr', name: 'Errors' }]} />
			</div>
			{problem && <ProblemNote problem={problem} />}
			<div class="log" ref={pane} tabIndex={0} role="region" aria-label="Output of the job">
				{text ? <pre>{text}</pre> : <p class="muted">{note || WORDS[state] || 'It printed nothing.'}</p>}
			</div>
		</>
	);
}

function Cancel(props: { org: string; job: Job }) {
	const [key] = useState(newKey);
	const [reason, setReason] = useState('');

	return (
		<Ask button="Cancel" title={`Cancel job ${props.job.job}?`} class="danger">
			{(close) => (
				<Form
					label="Cancel the job"
					danger
					send={async () => {
						await request('POST', `/v1/jobs/${props.job.job}/cancel`, { org: props.org, reason: reason || null }, key);
						refreshAll();
						close();
					}}
					beside={<button type="button" class="plain" onClick={close}>Keep it</button>}
				>
					<p>It stops as soon as its node hears of it. What it used is billed; the rest of its hold returns.</p>
					<Field label="Reason" help="for the job's history">
						{(id) => <input id={id} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}
					</Field>
				</Form>
			)}
		</Ask>
	);
}

/* What it has cost, what is held, and what it costs at its limit at most. */
function Cost(props: { job: Job; attempts: Attempt[] }) {
	const last = props.attempts[props.attempts.length - 1];
	const settled = props.attempts.reduce((sum, one) => sum + micro(one.billed) - micro(one.refunded), 0n);
	const now = micro(props.job.used);
	const limit = last && !last.ended_at && last.wall_limit ? (credits(last.per_hour) * seconds(last.wall_limit)) / 3600 : null;
	const whole = limit ?? credits(props.job.held);

	return (
		<>
			<Tiles>
				<Tile name="Cost so far" note={settled > 0n && now > 0n ? <>earlier attempts <Money of={settled} /></> : undefined}>
					<Money of={settled + now} />
				</Tile>
				<Tile name="Held now">
					<Money of={props.job.held} />
				</Tile>
				<Tile name="At its limit" note={last?.wall_limit && !last.ended_at ? `after ${duration(last.wall_limit)}` : undefined}>
					{limit !== null ? <Money of={BigInt(Math.round(limit * 1e6))} /> : '–'}
				</Tile>
				<Tile name="An hour costs">{last ? <Money of={last.per_hour} /> : '–'}</Tile>
				<Tile name="Busy" note={props.job.utilization === null ? 'not reported' : 'as its agent reports'}>
					{props.job.utilization === null ? '–' : `${Math.round(100 * props.job.utilization)} %`}
				</Tile>
			</Tiles>
			{!props.job.ended_at && whole > 0 && (
				<p>
					<Bar part={credits(props.job.used)} soft={Math.max(credits(props.job.held) - credits(props.job.used), 0)} whole={whole} label={`${moneyText(now)} used, ${props.job.held} held, of ${whole.toFixed(2)} at most`} />
				</p>
			)}
		</>
	);
}

export function JobPage(props: { org: string; job: string }) {
	const role = useRole();
	const about = `/v1/jobs/${encodeURIComponent(props.job)}`;
	const query = { org: props.org };
	const job = useLive<Job>(address(about, query), 2000);
	const over = job.data?.ended_at != null;
	const attempts = useLive<List<Attempt>>(role.may('http.attempts') ? address(`${about}/attempts`, query) : null, over ? 60000 : 3000);
	const checks = useLive<List<Check>>(role.may('explain') && job.data && !over ? address(`${about}/explain`, query) : null, 3000);
	const history = useLive<List<HistoryLine>>(role.may('history') ? address(`${about}/history`, query) : null, over ? 60000 : 3000);
	const submission = useLive<Submission>(role.may('http.submission', 'balance') ? address(`${about}/submission`, query) : null, 60000);
	const name = submission.data?.options.name ?? submission.data?.spec.name;

	return (
		<Page
			name={`Job ${props.job}`}
			over={<><Link href={to(['o', props.org, 'jobs'])}>Jobs of {props.org}</Link></>}
			title={<>Job {props.job}{typeof name === 'string' && <small> {name}</small>}</>}
			actions={
				<>
					{job.data && !over && role.may('cancel') && <Cancel org={props.org} job={job.data} />}
					{job.data && role.may('reserve', 'tiers_for') && (
						<Link class="button" href={to(['o', props.org, 'submit'], { like: props.job })}>Run again</Link>
					)}
				</>
			}
		>
			<Shown live={job}>
				{(one) => (
					<>
						<dl class="facts">
							<dt>State</dt>
							<dd><State of={one.state} />{one.not_before && !over && Date.parse(one.not_before) > Date.now() && <> may start again <When at={one.not_before} relative /></>}</dd>
							<dt>Account</dt>
							<dd>{accountName(one.account)}</dd>
							<dt>Request</dt>
							<dd>{one.request}{one.gpu_type && one.gpus !== null && <span class="muted"> got {one.share !== null && one.share < 1000 ? one.share / 1000 : one.gpus} × {one.gpu_type}</span>}</dd>
							<dt>Tier</dt>
							<dd>{one.tier.replace(/_/g, ' ')}, pool {one.pool}</dd>
							<dt>Submitted</dt>
							<dd><When at={one.submitted_at} /> <span class="muted"><When at={one.submitted_at} relative /></span></dd>
							<dt>{over ? 'Ran' : 'Has run'}</dt>
							<dd>{one.elapsed ? span(seconds(one.elapsed)) : 'not yet'}{one.progress !== null && <span class="muted"> at step {one.progress}</span>}</dd>
						</dl>
						<Section title="Cost"><Cost job={one} attempts={attempts.data?.data ?? []} /></Section>
						<Section title="Timeline">
							<Track job={one} attempts={attempts.data?.data ?? []} />
							{(attempts.data?.data.length ?? 0) > 0 && (
								<Table
									caption="Attempts"
									columns={[
										{ name: 'Attempt', head: true, cell: (row: Attempt) => row.attempt },
										{ name: 'Started', cell: (row) => <When at={row.started_at} /> },
										{ name: 'Devices', cell: (row) => `${row.share < 1000 ? row.share / 1000 : row.gpus} × ${row.gpu_type ?? 'none'}` },
										{ name: 'Ran', number: true, cell: (row) => duration(row.elapsed) },
										{ name: 'Billed', number: true, cell: (row) => (row.billed ? <Money of={row.billed} /> : 'running') },
										{ name: 'Outcome', cell: (row) => (row.outcome ?? 'running').replace(/_/g, ' ') },
										{ name: 'Message', cell: (row) => row.message ?? (row.exit_code ? `exit code ${row.exit_code}` : '') }
									]}
									rows={attempts.data?.data ?? []}
									id={(row) => row.attempt}
								/>
							)}
						</Section>
						{checks.data && (
							<Section title={one.state === 'queued' ? 'Why it waits' : 'Where it stands'} lead="in the order in which the scheduler checks">
								<Table
									caption="Checks of the scheduler"
									columns={[
										{ name: 'Check', head: true, cell: (row: Check) => row.check_name },
										{ name: 'Passes', cell: (row) => (row.passes ? 'yes' : <span class="warn">no</span>) },
										{ name: 'Figures', cell: (row) => row.detail }
									]}
									rows={checks.data.data}
									id={(row) => row.check_name + row.detail}
								/>
							</Section>
						)}
						{role.may('log_wish', 'log_get') && (
							<Section title="Output" lead={over ? 'as far as its node keeps it' : 'live'}>
								{one.attempt > 0 ? <Logs org={props.org} job={one} /> : <Empty><p>It has not run yet. What it prints appears here when it does.</p></Empty>}
							</Section>
						)}
						{role.may('history') && (
							<Section title="History" lead="every decision about it, and every credit that moved">
								<Shown live={history}>
									{(rows) => (
										<Table
											caption="History, newest first"
											columns={[
												{ name: 'Time', cell: (row: HistoryLine) => <When at={row.at} /> },
												{ name: 'What', head: true, cell: (row) => row.what.replace(/_/g, ' ') },
												{ name: 'Attempt', number: true, cell: (row) => row.attempt ?? '' },
												{ name: 'Detail', cell: (row) => row.detail }
											]}
											rows={[...rows.data].reverse()}
											id={(row) => row.at + row.what + row.detail}
										/>
									)}
								</Shown>
							</Section>
						)}
					</>
				)}
			</Shown>
		</Page>
	);
}
