/*
 * main.tsx: signs in, and chooses the page by its address.
 */
import { render } from 'preact';
import { useEffect, useErrorBoundary, useState } from 'preact/hooks';
import { findSession, Problem, read, signOut, whenSignedOut, type Session } from './api';
import { follow, forgetAll } from './live';
import { go, Link, to, usePlace } from './route';
import { Ask, Empty, Form, Page, ProblemNote } from './parts';
import { RoleContext, type Role } from './role';
import type { List, Me } from './rows';
import { SignIn } from './pages/signin';
import { CreditPage } from './pages/credit';
import { JobsPage } from './pages/jobs';
import { JobPage } from './pages/job';
import { SubmitPage } from './pages/submit';
import { UsagePage } from './pages/usage';
import { StatementPage } from './pages/statement';
import { LimitsPage } from './pages/limits';
import { AlertsPage } from './pages/alerts';
import { TokensPage } from './pages/tokens';
import { ClusterPage } from './pages/cluster';
import { QueuePage } from './pages/queue';
import { NodesPage } from './pages/nodes';
import { CapacityPage } from './pages/capacity';
import { UpkeepPage } from './pages/upkeep';
import { OrganisationsPage } from './pages/organisations';
import { MoneyPage } from './pages/money';
import { PricesPage } from './pages/prices';
import { InvoicePage, InvoicesPage } from './pages/invoices';
import { BooksPage } from './pages/books';
import { AuditPage } from './pages/audit';
import { RequestsPage } from './pages/requests';
import { SealsPage } from './pages/seals';
import { EvalsPage } from './pages/evals';
import { EvalRunPage } from './pages/evalrun';
import { DriftPage } from './pages/drift';
import { LabelPage } from './pages/label';
import { ModelPage } from './pages/model';
import { ModelsPage } from './pages/models';
import { WebhookPage, WebhooksPage } from './pages/webhooks';
import './style.css';

interface Entry {
	name: string;
	words: string[];
	/* all of these must be allowed */
	needs: string[];
}

/* The parts of the navigation, for the organisation that is looked at. */
function partsOf(role: Role, org: string | undefined): { name: string; entries: Entry[] }[] {
	const o = (word: string) => ['o', org ?? '', word];
	const parts = [
		{
			name: org ?? '',
			entries: org === undefined ? [] : [
				{ name: 'Credit', words: o('credit'), needs: ['balance', 'buckets'] },
				{ name: 'Jobs', words: o('jobs'), needs: ['http.jobs', 'balance'] },
				{ name: 'Submit', words: o('submit'), needs: ['reserve', 'tiers_for'] },
				{ name: 'Usage', words: o('usage'), needs: ['usage_by', 'balance'] },
				{ name: 'Statement', words: o('statement'), needs: ['statement'] },
				...(role.me.accounts.length === 0 || role.me.accounts.some((one) => one.org === org && one.account === '') ? [{ name: 'Invoices', words: o('invoices'), needs: ['billing.invoices', 'balance'] }] : []),
				{ name: 'Budgets', words: o('limits'), needs: ['budgets'] },
				{ name: 'Requests', words: o('requests'), needs: ['billing.allocation_requests', 'balance'] },
				{ name: 'Models', words: o('models'), needs: ['registry.models'] },
				{ name: 'Evals', words: o('evals'), needs: ['eval.runs', 'balance'] },
				{ name: 'Drift', words: o('drift'), needs: ['eval.streams', 'balance'] },
				{ name: 'Alerts', words: o('alerts'), needs: ['http.alerts', 'balance'] },
				{ name: 'Webhooks', words: o('webhooks'), needs: ['http.webhooks', 'balance'] },
				{ name: 'Issue and refund', words: o('money'), needs: ['issue'] }
			]
		},
		{
			name: 'Cluster',
			entries: [
				{ name: 'Cluster', words: ['cluster'], needs: ['cluster_map'] },
				{ name: 'Queue', words: ['queue'], needs: ['queue_reasons'] },
				{ name: 'Nodes', words: ['nodes'], needs: ['drain'] },
				{ name: 'Capacity', words: ['capacity'], needs: ['capacity_advice'] },
				{ name: 'Upkeep', words: ['upkeep'], needs: ['verify'] },
				{ name: 'All models', words: ['models'], needs: ['registry.all_models'] }
			]
		},
		{
			name: 'Money',
			entries: [
				{ name: 'Organisations', words: ['organisations'], needs: ['burn_rate', 'balance'] },
				{ name: 'Owed and expiring', words: ['books'], needs: ['burn_rate', 'balance'] },
				{ name: 'Prices', words: ['prices'], needs: ['http.prices'] },
				{ name: 'Audit', words: ['audit'], needs: ['audit_before'] },
				{ name: 'Seals', words: ['seals'], needs: ['verify_audit', 'http.seals'] }
			]
		},
		{ name: 'Access', entries: [{ name: 'Tokens', words: ['tokens'], needs: ['http.tokens'] }] }
	];

	return parts
		.map((part) => ({ ...part, entries: part.entries.filter((entry) => role.may(...entry.needs)) }))
		.filter((part) => part.entries.length > 0);
}

function Chosen(props: { words: string[]; role: Role }) {
	const [first, second, third, fourth, fifth] = props.words;

	if (first === 'o' && second !== undefined) {
		const org = second;

		switch (third) {
			case 'credit': return <CreditPage org={org} />;
			case 'jobs': return fourth ? <JobPage key={fourth} org={org} job={fourth} /> : <JobsPage org={org} />;
			case 'submit': return <SubmitPage org={org} />;
			case 'usage': return <UsagePage org={org} />;
			case 'statement': return <StatementPage org={org} />;
			case 'invoices': return fourth ? <InvoicePage key={fourth} org={org} document={fourth} /> : <InvoicesPage org={org} />;
			case 'limits': return <LimitsPage org={org} />;
			case 'requests': return <RequestsPage org={org} />;
			case 'evals':
				if (fourth && fifth === 'label') return <LabelPage key={fourth} org={org} run={fourth} />;
				return fourth ? <EvalRunPage key={fourth} org={org} run={fourth} /> : <EvalsPage org={org} />;
			case 'models': {
				const [of, name, part] = props.words.slice(3);

				return of !== undefined && name !== undefined ? <ModelPage key={`${of}/${name}`} reader={org} org={of} name={name} part={part ?? ''} /> : <ModelsPage org={org} />;
			}
			case 'drift': return <DriftPage org={org} />;
			case 'alerts': return <AlertsPage org={org} />;
			case 'webhooks': return fourth ? <WebhookPage key={fourth} org={org} webhook={fourth} /> : <WebhooksPage org={org} />;
			case 'money': return <MoneyPage org={org} />;
		}
	}
	switch (first) {
		case 'cluster': return <ClusterPage />;
		case 'queue': return <QueuePage />;
		case 'nodes': return <NodesPage />;
		case 'capacity': return <CapacityPage />;
		case 'upkeep': return <UpkeepPage />;
		case 'models': return <ModelsPage />;
		case 'organisations': return <OrganisationsPage />;
		case 'books': return <BooksPage />;
		case 'prices': return <PricesPage />;
		case 'audit': return <AuditPage />;
		case 'seals': return <SealsPage />;
		case 'tokens': return <TokensPage />;
	}
	return <NotFound />;
}

function NotFound() {
	return (
		<Page title="There is no such page" name="Not found">
			<Empty>
				<p>The address leads to nothing. Choose a page from the navigation.</p>
			</Empty>
		</Page>
	);
}

/* The page of an address, also where its query is none that the page can show, such as ?month=x. */
function Checked(props: { words: string[]; query: string; role: Role }) {
	const [error, reset] = useErrorBoundary((fault) => console.warn(fault));

	useEffect(() => {
		if (error) reset();
	}, [props.words.join('/'), props.query]);
	return error ? <NotFound /> : <Chosen words={props.words} role={props.role} />;
}

function Frame(props: { role: Role; left: () => void }) {
	const { role } = props;
	const place = usePlace();
	const [lastOrg, setLastOrg] = useState<string | undefined>(role.me.accounts[0]?.org);
	const org = place.words[0] === 'o' ? place.words[1] : lastOrg;
	const parts = partsOf(role, org);
	const home = role.me.accounts.length === 0 && role.may('burn_rate', 'balance') ? (role.may('issue') ? to(['organisations']) : to(['audit'])) : undefined;
	const first = home ?? (parts[0]?.entries[0] ? to(parts[0].entries[0].words) : to(['tokens']));

	useEffect(() => {
		if (place.words[0] === 'o') setLastOrg(place.words[1]);
		if (place.words.length === 0) go(first, true);
	}, [place.words.join('/'), first]);
	useEffect(() => {
		/* on a phone the navigation is one line, of which only a part is in sight */
		const link = document.querySelector<HTMLElement>('.side nav a[aria-current]');

		if (link?.parentElement) link.parentElement.scrollLeft = link.offsetLeft - (link.parentElement.clientWidth - link.offsetWidth) / 2;
	}, [place.words.join('/'), parts.length]);
	useEffect(() => (role.may('events') ? follow() : undefined), [role]);
	const leave = async (everywhere: boolean) => {
		await signOut(everywhere);
		props.left();
	};

	return (
		<div class="frame">
			<a class="skip" href="#page">To the page</a>
			<div class="side">
				<Link href={first} class="brand">
					<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M1 13V9h3v4zm5.5 0V3h3v10zm5.5 0V6h3v7z" /></svg>
					gpucredit
				</Link>
				<nav aria-label="Pages">
					{parts.map((part) => (
						<>
							<h2>{part.name}</h2>
							{part.entries.map((entry) => (
								<Link key={entry.words.join('/')} href={to(entry.words)} current={place.words.slice(0, entry.words.length).join('/') === entry.words.join('/')}>
									{entry.name}
								</Link>
							))}
						</>
					))}
				</nav>
				<div class="who">
					<b>{role.session.role}</b>
					<span class="long">
						{role.session.scope === 'admin' ? '' : `scope ${role.session.scope}`}
					</span>
					<Ask button="Sign out" title="Sign out" class="plain">
						{(close) => (
							<Form
								label="Sign out here"
								send={() => leave(false)}
								beside={
									<>
										<button type="button" onClick={() => void leave(true)}>Sign out everywhere</button>
										<button type="button" class="plain" onClick={close}>Stay</button>
									</>
								}
							>
								<p>Everywhere means: every browser that is signed in as {role.session.role}.</p>
							</Form>
						)}
					</Ask>
				</div>
			</div>
			<main id="page" tabIndex={-1}>
				<Checked words={place.words} query={place.query.toString()} role={role} />
			</main>
		</div>
	);
}

function App() {
	const [session, setSession] = useState<Session | null | undefined>(undefined);
	const [role, setRole] = useState<Role | null>(null);
	const [problem, setProblem] = useState<Problem | null>(null);
	const left = () => {
		forgetAll();
		setRole(null);
		setSession(null);
	};
	const begin = async () => {
		try {
			setProblem(null);
			setSession(await findSession());
		} catch (error) {
			setProblem(error as Problem);
		}
	};

	useEffect(() => {
		whenSignedOut(left);
		void begin();
	}, []);
	useEffect(() => {
		if (!session) return;
		Promise.all([read<Me>('/v1/me'), read<List<{ value: string }>>('/v1/functions')]).then(
			([me, functions]) => {
				const allowed = new Set(functions?.value.data.map((one) => one.value));

				if (me) setRole({ session, me: me.value, may: (...names) => names.every((name) => allowed.has(name)) });
			},
			(error: unknown) => setProblem(error as Problem)
		);
	}, [session]);
	if (problem)
		return (
			<div class="gate">
				<main>
					<h1>gpucredit</h1>
					<ProblemNote problem={problem} again={() => void begin()} />
				</main>
			</div>
		);
	if (session === null) return <SignIn done={setSession} />;
	if (!session || !role) return null;
	return (
		<RoleContext.Provider value={role}>
			<Frame role={role} left={left} />
		</RoleContext.Provider>
	);
}

render(<App />, document.getElementById('app') as HTMLElement);
