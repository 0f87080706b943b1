/*-------------------------------------------------------------------------
 *
 * instant.h
 *		Parses instants as sbatch's --begin and --deadline have them.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_INSTANT_H
#define GPUCREDIT_CLI_INSTANT_H

#include <stdbool.h>
#include <time.h>

extern bool InstantParse(const char *text, time_t now, bool past,
						 time_t *instant);
extern char *InstantPrint(time_t instant);

#endif							/* GPUCREDIT_CLI_INSTANT_H */
