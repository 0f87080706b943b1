/*-------------------------------------------------------------------------
 *
 * receive.h
 *		Cuts a request's body into chunks, and stores them.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_RECEIVE_H
#define REGISTRYD_RECEIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "db.h"
#include "options.h"

typedef struct Receive Receive;

extern Receive *receive_begin(json_t * plan, DbError *error);
extern bool receive_data(Receive *receive, const char *data, size_t size,
						 DbError *error) MUST_USE;
extern bool receive_end(Receive *receive, bool finishes, char *digest, DbError *error) MUST_USE;
extern void receive_free(Receive *receive);
extern int64_t receive_missing(const Receive *receive);
extern int64_t receive_end_byte(const Receive *receive);

#endif							/* REGISTRYD_RECEIVE_H */
