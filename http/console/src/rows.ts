/*
 * rows.ts: what the API answers, as GET /v1/openapi.json describes it.  The test
 * compares each of these with that document.
 */
export interface List<T> {
	data: T[];
	truncated: boolean;
	next: number | null;
}

export interface Me {
	role: string;
	scope: string;
	token: number;
	accounts: { org: string; account: string }[];
}

export interface Balance {
	available: string;
	spendable: string;
	held: string;
	used: string;
	spent: string;
	promo: string;
	granted: string;
	paid: string;
	next_expiry_at: string | null;
	next_expiry_amount: string | null;
}

export interface Bucket {
	bucket: number;
	account: string;
	kind: string;
	priority: number;
	effective_at: string;
	expires_at: string | null;
	issued: string;
	available: string;
	held: string;
	spent: string;
	expired: string;
	usable: boolean;
	why: string | null;
}

export interface BalanceAt {
	at: string;
	available: string;
}

export interface Usage {
	item: string | null;
	spent: string;
	refunded: string;
	net: string;
	gpu_hours: string;
	jobs: number;
	accrued: string;
	keys: Record<string, string | null>;
}

export interface Job {
	org: string;
	job: number;
	account: string;
	pool: string;
	tier: string;
	request: string;
	state: string;
	attempt: number;
	failures: number;
	gpu_type: string | null;
	gpus: number | null;
	share: number | null;
	elapsed: string | null;
	held: string;
	used: string | null;
	submitted_at: string;
	not_before: string | null;
	started_at: string | null;
	ended_at: string | null;
	progress: number | null;
	utilization: number | null;
}

export interface Attempt {
	attempt: number;
	gpu_type: string | null;
	gpus: number;
	share: number;
	per_hour: string;
	wall_limit: string | null;
	started_at: string;
	elapsed: string;
	held: string;
	ended_at: string | null;
	outcome: string | null;
	billed: string | null;
	refunded: string | null;
	exit_code: number | null;
	message: string | null;
	utilization: number | null;
}

export interface HistoryLine {
	at: string;
	what: string;
	attempt: number | null;
	detail: string;
}

export interface Check {
	check_name: string;
	passes: boolean;
	detail: string;
}

export interface Submission {
	account: string;
	request: string;
	wall_limit: string | null;
	tier: string;
	pool: string;
	topology: string;
	max_retries: number;
	spec: Record<string, unknown>;
	options: Record<string, unknown>;
}

export interface LogPiece {
	state: string;
	attempt: number | null;
	node: string | null;
	first_byte: number | null;
	body: string | null;
	written: number | null;
	over: boolean | null;
	message: string | null;
}

export interface Price {
	gpu_type: string;
	pool: string;
	spot: boolean;
	effective_at: string;
	per_gpu_hour: string;
	recorded_at: string;
}

export interface TierFor {
	tier: string;
	rank: number;
	allowed: boolean;
}

export interface Quote {
	decision: string;
	reason: string | null;
	held: string | null;
	cost: string | null;
	per_hour: string | null;
	discount: string | null;
	wall_limit: string | null;
	held_for: string | null;
	offers: { gpu_type: string; per_gpu_hour: string; per_hour: string }[];
	buckets: { bucket: number; account: string; kind: string; expires_at?: string; amount: string }[];
	payable: string | null;
	budget_left: string | null;
	starts: string | null;
	waits_for: string | null;
	expected_at: string | null;
	latest_at: string | null;
}

export interface Budget {
	account: string;
	period: string;
	period_start: string;
	amount: string;
	reserved: string;
	spent: string;
	remaining: string;
	hard: boolean;
}

export interface Quota {
	account: string;
	gpu_type: string | null;
	max_gpus: number | null;
	gpus: string;
	max_running: number | null;
	running: number;
	max_queued: number | null;
	queued: number;
	max_nonpreemptible_gpus: number | null;
	nonpreemptible_gpus: string;
	max_cpu_milli: number | null;
	cpu_milli: number;
	max_memory_mib: number | null;
	memory_mib: number;
}

export interface Alert {
	org: string;
	alert: number;
	at: string;
	account: string;
	kind: string;
	threshold: string;
	detail: Record<string, unknown>;
}

export interface Entry {
	at: string;
	entry: number | null;
	bucket: number;
	account: string | null;
	operation: string;
	source: string;
	target: string;
	amount: string;
	job: number | null;
	available: string;
}

export interface InvoiceLine {
	line: number;
	account: string;
	tier: string | null;
	gpu_type: string | null;
	jobs: number;
	gpu_hours: string;
	spent: string;
	refunded: string;
	amount: string;
	per_gpu_hour: string | null;
}

export interface Issued {
	document: number;
	kind: 'invoice' | 'credit_note';
	number: string;
	month: string;
	issued_at: string;
	due_on: string | null;
	currency: string;
	total: string;
	open: string | null;
	corrects: string | null;
}

export interface IssuedDocument {
	kind: 'invoice' | 'credit_note';
	number: string;
	month: string;
	issued_at: string;
	due_on: string | null;
	currency: string;
	subtotal: string;
	discount_percent: string;
	discount: string;
	tax_name: string;
	tax_percent: string;
	tax: string;
	total: string;
	seller: string;
	buyer: string;
	purchase_order: string;
	note: string;
	reason: string;
}

export interface IssuedLine {
	line: number;
	kind: string;
	account: string;
	tier: string | null;
	gpu_type: string | null;
	jobs: number | null;
	gpu_hours: string | null;
	unit_price: string | null;
	amount: string;
}

export interface Terms {
	currency: string;
	per_credit: string;
	discount_percent: string;
	tax_name: string;
	tax_percent: string;
	due_days: number;
	seller: string;
	buyer: string;
	purchase_order: string;
	note: string;
	series: string;
	digits: number;
}

export interface Token {
	token: number;
	role: string;
	scope: string;
	label: string;
	created_at: string;
	expires_at: string;
	used_at: string | null;
	revoked_at: string | null;
}

export interface Browser {
	session: number;
	role: string;
	token: number;
	label: string;
	created_at: string;
	used_at: string;
	expires_at: string;
	here: boolean;
}

export interface Account {
	org: string;
	account: string;
	suspended: boolean;
}

export interface Node {
	node: string;
	pool: string;
	gpu_type: string;
	gpus: number;
	healthy: string;
	spot: boolean;
	state: string;
	reason: string | null;
	deadline: string | null;
	heard_at: string | null;
	takes_work: boolean;
}

export interface Device {
	node: string;
	gpu: number;
	healthy: boolean;
	org: string | null;
	account: string | null;
	job: number | null;
	attempt: number | null;
	share: number | null;
	started_at: string | null;
	ends_at: string | null;
	fenced: boolean | null;
}

export interface Capacity {
	pool: string;
	gpu_type: string;
	spot: boolean;
	nodes: number;
	in_service: number;
	allocated: string;
	free: number;
	stranded: number;
}

export interface QueueRow {
	org: string;
	account: string;
	job: number;
	tier: string;
	request: string;
	waits: string;
	reason: string;
	expected_at: string | null;
}

export interface Reason {
	reason: string;
	tier: string;
	jobs: number;
	devices: string;
	longest: string;
}

export interface Reservation {
	org: string;
	job: number;
	node: string;
	gpus: string;
	gpu_type: string;
	expected_at: string | null;
	latest_at: string | null;
	limit_at: string | null;
}

export interface Share {
	org: string;
	account: string;
	weight: string;
	live: string;
	share: string;
	used: string;
	rank: number;
}

export interface Advice {
	gpu_type: string;
	supply: string;
	allocated: string;
	waiting: string;
	busy_percent: string | null;
	demand_percent: string | null;
	stranded: number;
	advice: string;
	devices: number;
	cost: string | null;
}

export interface DemandStep {
	since: string;
	gpu_type: string;
	supply: string;
	allocated: string;
	waiting: string;
	demand: string;
}

export interface Recent {
	what: string;
	reason: string | null;
	jobs: number;
	times: number;
	latest: string;
	org: string | null;
	job: number | null;
}

export interface Lag {
	task: string;
	lag: string;
}

export interface Finding {
	invariant: string;
	org: string;
	subject: string;
	detail: string;
}

export interface Organisation {
	org: string;
	created_at: string;
	suspended: boolean;
	available: string;
	spendable: string;
	held: string;
	spent: string;
	next_expiry_at: string | null;
	next_expiry_amount: string | null;
}

export interface Burn {
	org: string;
	available: string;
	held: string;
	per_day: string;
	days_left: string | null;
	runs_out: string | null;
}

export interface Expiring {
	org: string;
	account: string;
	bucket: number;
	kind: string;
	expires_at: string;
	available: string;
	held: string;
}

export interface Debt {
	org: string;
	account: string;
	owed: string;
	since: string;
}

export interface Audit {
	org: string;
	audit: number;
	at: string;
	login: string;
	actor: string;
	operation: string;
	decision: string;
	reason: string | null;
	account: string | null;
	job: number | null;
	detail: Record<string, unknown> | null;
	client_addr: string | null;
}

export interface Webhook {
	webhook: number;
	account: string;
	role: string;
	url: string;
	kinds: string[] | null;
	label: string;
	waiting: number;
	failing_since: string | null;
	delivered_at: string | null;
	disabled_at: string | null;
	disabled_why: string | null;
}

export interface Delivery {
	event: number;
	kind: string;
	job: number | null;
	state: string;
	attempts: number;
	due_at: string | null;
	status: number | null;
	problem: string | null;
	ended_at: string | null;
}

export interface AllocationRequest {
	request: number;
	account: string;
	kind: string;
	credits: string | null;
	quota: Record<string, string | number> | null;
	reason: string;
	asked_at: string;
	asked_by: string;
	state: string;
	decided_by: string | null;
	note: string | null;
	granted: string | null;
	may_decide: boolean;
}

export interface Approver {
	account: string;
	role: string;
	quota: boolean;
}

export interface Seal {
	batch: number;
	sealed_at: string;
	entries: number;
	audits: number;
	seal: string;
	entries_left: boolean;
	audits_left: boolean;
}

export interface SealStatus {
	entries_unsealed: number | null;
	audits_unsealed: number | null;
	last_batch: number | null;
	last_sealed_at: string | null;
	waiting_since: string | null;
	waiting_for: string[] | null;
}

export interface EvalRun {
	run: number;
	account: string;
	config: string;
	version: number;
	model: string;
	purpose: string;
	state: string;
	verdict: string | null;
	cases: number;
	baseline: number | null;
	cap: string;
	captured: string | null;
	problem: string | null;
	held_out: boolean;
	started_at: string;
	ended_at: string | null;
	started_by: string;
}

export interface EvalGate {
	task: string;
	score: string | null;
	n: number | null;
	stderr: string | null;
	threshold: string;
	baseline: string | null;
	passes: boolean | null;
	blocking: boolean;
	reason: string;
	metric: string | null;
	value: string | null;
}

export interface EvalScore {
	run: number;
	version: number;
	model: string;
	started_at: string;
	task: string;
	score: string | null;
	threshold: string;
	baseline: string | null;
	passes: boolean | null;
	blocking: boolean;
	reason: string;
}

export interface EvalPair {
	case: number;
	name: string;
	task: string;
	input: unknown;
	expected: unknown;
	score_a: string | null;
	score_b: string | null;
	output_a: string | null;
	output_b: string | null;
	error_a: string | null;
	error_b: string | null;
	failures_a: string | null;
	failures_b: string | null;
	reasons_a: string[] | null;
	reasons_b: string[] | null;
}

export interface EvalConfig {
	config: string;
	version: number;
	account: string;
	sets: string[];
	judge: string | null;
	judge_status: string | null;
	runs: number;
}

export interface EvalSet {
	set: string;
	kind: string;
	account: string;
	permission: string;
	version: number | null;
	version_cases: number | null;
	frozen_at: string | null;
}

export interface EvalJudge {
	judge: string;
	status: string;
	calibrated_at: string | null;
	lapses_at: string | null;
	n: number | null;
	raters: number | null;
	agreement: string | null;
	kappa_weighted: string | null;
	kappa_low: string | null;
	kappa_high: string | null;
	bias: string | null;
	configs: string[];
}

export interface EvalStream {
	stream: string;
	kind: string;
	source: string | null;
	config: string;
	version: number;
	every: number;
	mu: string;
	sigma: string;
	t: number;
	z: string;
	signal: boolean;
	baseline: number | null;
	keep: string | null;
	last_at: string | null;
	kept: number | null;
}

export interface EvalObservation {
	t: number;
	observed_at: string;
	score: string;
	z: string;
	lower: string;
	upper: string;
}

export interface EvalAnswer {
	request: string;
	kept_at: string;
	score: string | null;
	finish_reason: string | null;
	feedback: string | null;
	complaint: boolean;
	comment: string | null;
	input: unknown;
	output: string | null;
	set: string | null;
	case_name: string | null;
	expires_at: string;
}

export interface EvalLabel {
	case: number;
	task: string;
	input: unknown;
	expected: unknown;
	rubric: string;
	output: string;
	rated: number;
	left_over: number;
}

export interface Model {
	model_org: string;
	model: number;
	name: string;
	kind: string;
	visibility: string;
	license: string | null;
	library: string | null;
	task: string | null;
	tags: string[];
	versions: number;
	files: number | null;
	modified_at: string;
	downloads: number;
	state: string | null;
}

export interface Facet {
	kind: string;
	value: string;
	facet: string | null;
	models: number;
}

export interface ModelRef {
	ref: string;
	kind: string;
	oid: string;
}

export interface ModelDetails {
	model: number;
	paid_by: string | null;
	visibility: string;
	license: string | null;
	library: string | null;
	task: string | null;
	tags: string[];
	labels: string[];
	languages: string[];
	base_models: string[];
	permission: string;
	created_at: string;
	modified_at: string;
	versions: number;
	downloads: number;
	head: string | null;
	state: string | null;
	reason: string | null;
	card: string | null;
	card_refused: string | null;
	refs: ModelRef[];
}

export interface VersionRef {
	ref: string;
	kind: string;
	protected: boolean;
}

export interface Version {
	version: number;
	oid: string;
	title: string;
	author: string;
	created_at: string;
	files: number;
	state: string;
	reason: string | null;
	refs: VersionRef[];
}

export interface VersionDetails {
	version: number;
	oid: string;
	title: string;
	description: string | null;
	author: string;
	created_at: string;
	files: number;
	bytes: string;
	blocked: number;
	state: string;
	reason: string | null;
	refs: VersionRef[];
	source: string | null;
	source_repository: string | null;
	source_oid: string | null;
}

export interface VersionFile {
	name: string;
	is_folder: boolean;
	files: number;
	bytes: string;
	sha256: string | null;
	blocked: boolean;
}

export interface Relative {
	related: number;
	depth: number;
	model_org: string;
	name: string;
	kind: string;
	oid: string;
	created_at: string;
	state: string;
	deleted: boolean;
	parents: number[];
	made: string[];
	more: boolean;
}

export interface Dataset {
	dataset: string;
	license: string | null;
	depth: number;
	of_org: string;
	of_name: string;
	of_version: number;
	in_registry: boolean;
}

export interface Scan {
	scanner: string;
	verdict: string;
	detail: Record<string, unknown> | null;
	reported_at: string | null;
}

export interface ModelScore {
	benchmark: string;
	metric: string;
	score: string;
	set_by: string;
	set_at: string;
	measured: boolean;
}

export interface Held {
	version: number;
	model_org: string;
	model: number;
	name: string;
	kind: string;
	oid: string;
	state: string;
	reason: string | null;
	since: string;
	refs: VersionRef[];
}

export interface Traffic {
	day: string;
	downloads: number;
	bytes: number;
}

export interface ModelDownload {
	download: number;
	began_at: string;
	last_at: string;
	version: number | null;
	path: string | null;
	size: number;
	client: string;
	bytes: number;
	requests: number;
}

export interface ModelCost {
	bytes: string;
	sent_bytes: string;
	storage_price: string;
	cold_price: string;
	egress_price: string;
	storage_month: string;
	egress_cost: string;
	unpaid: boolean;
}

export interface RegistryBill {
	day: string;
	of_account: string;
	byte_hours: string;
	cold_byte_hours: string;
	egress_bytes: number;
	amount: string;
	paid_at: string | null;
}

export interface RegistryStorage {
	logical: number;
	unique: number;
	billed: string;
}

export interface Mirror {
	model: number;
	name: string;
	remote: string;
	repository: string;
	patterns: string[];
	every: string;
	state: string;
	synced_at: string | null;
	due_at: string;
	failures: number;
	last_error: string | null;
}
