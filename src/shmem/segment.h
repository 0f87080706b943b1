/*-------------------------------------------------------------------------
 *
 * segment.h
 *		The extension's part of the server's shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SEGMENT_H
#define GPUCREDIT_SEGMENT_H

#define SEGMENT_DATABASES	32	/* most databases that have data in it */

/*
 * A module's part of the shared memory.  size() returns its size.  The
 * postmaster calls start() with "found" false once, before any backend runs.
 * reset(), if not NULL, clears the data of a database's number when another
 * database gets the number.
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
