/*
 * 07_notify.sql: news for those who listen.
 */
CREATE FUNCTION gpucredit_eval.notify_number(channel text, number bigint) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_eval_notify_number';
COMMENT ON FUNCTION gpucredit_eval.notify_number(text, bigint) IS
'Internal: sends NOTIFY on a channel at commit, with the number of a row of table event as its payload; drops it if the queue is used up to gpucredit.notify_queue_limit. Every login may listen, so a payload names nothing that a role may not read.';
