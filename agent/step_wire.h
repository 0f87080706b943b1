/*-------------------------------------------------------------------------
 *
 * step_wire.h
 *		What srun and the nodes of its job say to each other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_STEP_WIRE_H
#define GPUCREDIT_AGENT_STEP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP_PIECE	(64 * 1024) /* bytes of a frame of output or input */
#define STEP_REQUEST_MOST	(8 << 20)	/* bytes of a request */
#define STEP_PORTS	16			/* where a node may listen */

/* The kinds of frames. */
typedef enum StepFrameKind
{
	STEP_REQUEST = 'R',			/* to the node: what to run */
	STEP_SIGNAL = 'S',			/* to the node: a signal for all tasks */
	STEP_INPUT = 'I',			/* to the node: standard input; empty: its end */
	STEP_INPUT_DONE = 'A',		/* all tasks have it */
	STEP_OUTPUT = 'O',			/* of a task */
	STEP_ERROR = 'E',			/* of a task's standard error */
	STEP_EXIT = 'X'				/* a task's status, as wait() has it */
} StepFrameKind;

/* A frame, as it was read; those of a task begin with its number. */
typedef struct StepFrame
{
	StepFrameKind kind;
	size_t		len;
	char	   *data;
} StepFrame;

/* What has come and is no whole frame yet. */
typedef struct StepReader
{
	char	   *buffer;
	size_t		from;			/* where the next frame begins */
	size_t		used;
	size_t		size;
	bool		ended;			/* nothing more comes */
} StepReader;

extern void StepReadMore(StepReader *reader, int fd);
extern bool StepNextFrame(StepReader *reader, StepFrame *frame);
extern bool StepSend(int fd, StepFrameKind kind, int task, const void *data,
					 size_t len);
extern int	StepTaskOf(StepFrame *frame);

extern int	StepPort(const char *key, int rank, int i);
extern bool StepAccept(int fd, const char *key);
extern bool StepIntroduce(int fd, const char *key);

#endif							/* GPUCREDIT_AGENT_STEP_WIRE_H */
