/*-------------------------------------------------------------------------
 *
 * finish.h
 *		Completes an upload whose bytes are all stored.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_FINISH_H
#define REGISTRYD_FINISH_H

#include <jansson.h>
#include <stdbool.h>

#include "db.h"
#include "options.h"

extern bool finish_upload(json_t * plan, const unsigned char *digest,
						  DbError *error) MUST_USE;
extern bool verify_upload(json_t * plan, DbError *error) MUST_USE;
extern bool verify_stored(json_t * plan, DbError *error) MUST_USE;

#endif							/* REGISTRYD_FINISH_H */
