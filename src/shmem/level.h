/*-------------------------------------------------------------------------
 *
 * level.h
 *		Token buckets in shared memory: how much is left of each rate limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LEVEL_H
#define GPUCREDIT_LEVEL_H

#include "datatype/timestamp.h"

#define LEVEL_KEY_SIZE	16

/* A bucket: its name, how fast it fills, and how much it holds. */
typedef struct Level
{
	uint8		key[LEVEL_KEY_SIZE];	/* a digest */
	double		per_second;
	double		burst;
} Level;

extern void LevelInit(void);
extern int	LevelTake(const Level *levels, int n, TimestampTz now,
					  double *wait);
extern uint64 LevelForgotten(void);

#endif							/* GPUCREDIT_LEVEL_H */
