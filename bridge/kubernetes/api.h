/*-------------------------------------------------------------------------
 *
 * api.h
 *		Calls the Kubernetes API, with many calls at once.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_API_H
#define GPUCREDIT_KUBERNETES_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_JSON		"application/json"
#define API_MERGE		"application/merge-patch+json"

/*
 * Receives the answer of a call. "status" is the HTTP status, or 0 if there
 * was no answer; then the call may have taken effect.
 */
typedef void (*ApiAnswer) (long status, json_t * body, void *context);

/* Receives the next piece of a stream. Returning false ends the stream. */
typedef bool (*ApiPiece) (const char *data, size_t len, void *context);

extern void ApiCall(const char *method, const char *path, const char *type,
					json_t * body, ApiAnswer answer, void *context);
extern void ApiStream(const char *path, long limit_s, ApiPiece piece,
					  ApiAnswer end, void *context);
extern void ApiTurn(int fd, short events, int timeout_ms);
extern int	ApiWaiting(void);
extern const char *ApiProblem(json_t * body);

#endif							/* GPUCREDIT_KUBERNETES_API_H */
