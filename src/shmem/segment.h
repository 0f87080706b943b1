/*-------------------------------------------------------------------------
 *
 * segment.h
 *		The extension's piece of the server's shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SEGMENT_H
#define GPUCREDIT_SEGMENT_H

#define SEGMENT_DATABASES	32	/* databases that have something in it */

/*
 * A module's part: how large it is, and what makes it ready.  start() is
 * called with "found" false once, by the postmaster, before any backend runs.
 * reset(), where there is one, makes a database's place good for another.
 */
typedef struct SegmentPart
{
	const char *name;
	Size		(*size) (void);
	void		(*start) (void *memory, bool found);
	void		(*reset) (int number);
} SegmentPart;

extern void SegmentInit(void);
extern void SegmentAdd(const SegmentPart *part);
extern bool SegmentReady(void);
extern int	SegmentDatabase(void);
extern Oid	SegmentDatabaseOid(int number);

#endif							/* GPUCREDIT_SEGMENT_H */
