/*
 * events.ts: hears of what happens, as it happens, while the page is visible.
 *
 * The browser comes again by itself when the stream breaks.  Where there is no
 * stream, the pages ask now and then, as they always do.
 */
const KINDS = [
	'job.queued', 'job.eligible', 'job.held', 'job.released', 'job.denied', 'job.started', 'job.saved', 'job.resized',
	'job.stopping', 'job.preempted', 'job.requeued', 'job.part_ended', 'job.ended', 'hold.grown', 'hold.denied',
	'credit.issued', 'credit.transferred', 'credit.revoked', 'credit.refunded', 'credit.expired', 'credit.expiring',
	'budget.threshold', 'balance.low', 'spend.high', 'account.suspended', 'account.resumed', 'node.registered',
	'node.removed', 'node.draining', 'node.resumed', 'node.reclaimed', 'node.rebooted', 'node.lost',
	'node.device_failed', 'node.device_back', 'model.created', 'model.committed', 'model.ref_moved', 'model.ref_deleted',
	'model.quarantined', 'model.restricted', 'model.released', 'model.pruned', 'model.deleted', 'gap'
];

/* Follows the events until the function that it answers is called. */
export function followEvents(happened: () => void, open: (isOpen: boolean) => void): () => void {
	let source: EventSource | null = null;
	const stop = () => {
		source?.close();
		source = null;
		open(false);
	};
	const start = () => {
		stop();
		if (document.hidden) return;
		source = new EventSource('/v1/events');
		source.onopen = () => open(true);
		source.onerror = () => open(false);
		KINDS.forEach((kind) => source?.addEventListener(kind, happened));
	};

	start();
	document.addEventListener('visibilitychange', start);
	return () => {
		document.removeEventListener('visibilitychange', start);
		stop();
	};
}
