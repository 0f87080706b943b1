/*-------------------------------------------------------------------------
 *
 * caller.h
 *		Determines as whom a router calls the cells.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CELLS_CALLER_H
#define GPUCREDIT_CELLS_CALLER_H

#define ALL_CELLS	(-1)

/* The user before CallerEnter(), and the cells that the call goes to. */
typedef struct Caller
{
	Oid			user;
	int			security;
	int			cell;			/* index of the cell, or ALL_CELLS */
} Caller;

extern Caller CallerEnter(Oid function, int number);
extern void CallerLeave(Caller caller);

#endif							/* GPUCREDIT_CELLS_CALLER_H */
