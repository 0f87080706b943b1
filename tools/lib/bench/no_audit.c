/*
 * no_audit.c: linked with --wrap=AuditDecision, so that keyed calls write no
 * audit row; for tools/bench audit alone.
 */
extern void __wrap_AuditDecision(void *row, const char *key);

void
__wrap_AuditDecision(void *row, const char *key)
{
}
