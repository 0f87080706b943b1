/*-------------------------------------------------------------------------
 *
 * api.h
 *		Calls of the Kubernetes API, many at once.
 *
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

/* status: of HTTP; 0 without an answer: the call may have taken effect */
typedef void (*ApiAnswer) (long status, json_t * body, void *context);

/* the next piece of a stream; false ends it */
typedef bool (*ApiPiece) (const char *data, size_t len, void *context);

extern void ApiCall(const char *method, const char *path, const char *type,
					json_t * body, ApiAnswer answer, void *context);
extern void ApiStream(const char *path, long limit_s, ApiPiece piece,
					  ApiAnswer end, void *context);
extern void ApiTurn(int fd, short events, int timeout_ms);
extern int	ApiWaiting(void);
extern const char *ApiProblem(json_t * body);

#endif							/* GPUCREDIT_KUBERNETES_API_H */
