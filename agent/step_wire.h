/*-------------------------------------------------------------------------
 *
 * step_wire.h
 *		The protocol between srun and the nodes of its job.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_STEP_WIRE_H
#define GPUCREDIT_AGENT_STEP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP_PIECE	(64 * 1024) /* most bytes of output or input in a frame */
#define STEP_REQUEST_MOST	(8 << 20)	/* most bytes of a request */
#define STEP_PORTS	16			/* number of ports on which a node may listen */

/* The kinds of frames. */
typedef enum StepFrameKind
{
	STEP_REQUEST = 'R',			/* to the node: what to run */
	STEP_SIGNAL = 'S',			/* to the node: a signal for all tasks */
	STEP_INPUT = 'I',			/* to the node: standard input; empty at its
								 * end */
	STEP_INPUT_DONE = 'A',		/* from the node: all tasks have received the
								 * input */
	STEP_OUTPUT = 'O',			/* a task's standard output */
	STEP_ERROR = 'E',			/* a task's standard error */
	STEP_EXIT = 'X'				/* a task's exit status, as wait() returns it */
} StepFrameKind;

/* A received frame. The data of a frame about a task begin with its number. */
typedef struct StepFrame
{
	StepFrameKind kind;
	size_t		len;
	char	   *data;
} StepFrame;

/* Received bytes that do not form a complete frame yet. */
typedef struct StepReader
{
	char	   *buffer;
	size_t		from;			/* where the next frame begins */
	size_t		used;
	size_t		size;
	bool		ended;			/* the connection has ended */
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
