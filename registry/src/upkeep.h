/*-------------------------------------------------------------------------
 *
 * upkeep.h
 *		Deletes unused data, and verifies every stored byte.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_UPKEEP_H
#define REGISTRYD_UPKEEP_H

#include <stdbool.h>

extern void upkeep_start(void);
extern bool upkeep_round(bool thorough);
extern int	upkeep_verify(void);

#endif							/* REGISTRYD_UPKEEP_H */
