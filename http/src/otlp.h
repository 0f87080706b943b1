/*-------------------------------------------------------------------------
 *
 * otlp.h
 *		Writes spans in the JSON form of the OpenTelemetry protocol.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_OTLP_H
#define HTTP_OTLP_H

#include <libpq-fe.h>

/*
 * Returns the body of a request that exports the rows of claim_spans(). The
 * caller frees it. NULL if memory runs out.
 */
extern char *otlp_body(const PGresult *rows);

#endif							/* HTTP_OTLP_H */
