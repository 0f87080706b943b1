/*-------------------------------------------------------------------------
 *
 * watch.h
 *		A list of objects of the API server that is kept up to date.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_WATCH_H
#define GPUCREDIT_KUBERNETES_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum WatchStage
{
	WATCH_PAUSES, WATCH_LISTS, WATCH_STREAMS
} WatchStage;

/*
 * put() gets each object as it is now, drop() one that is gone.  After a list
 * sweep() drops what the list did not have.
 */
typedef struct KubeWatch
{
	const char *path;
	void		(*mark) (void);
	void		(*put) (json_t * object);
	void		(*drop) (json_t * object);
	void		(*sweep) (void);
	WatchStage	stage;
	bool		complete;		/* a list was read to its end */
	char	   *version;		/* the last that was seen; NULL: list */
	char	   *more;			/* continues the list; NULL: its begin */
	char	   *line;			/* the part of an event that has come */
	size_t		len;
	size_t		room;
	int64_t		again_ns;		/* when to go on */
	int			failures;
	int64_t		list_ns;		/* when the last list was asked for */
	int64_t		heard_ns;		/* the last time at which all objects were
								 * known */
	int64_t		gap_ns;			/* the same, before the last gap */
	int64_t		behind_ns;		/* until then events may be from that gap */
	int64_t		reported_ns;	/* kubelets' reports until then have come; */
	int64_t		late_until_ns;	/* the rest may come until then */
} KubeWatch;

extern int64_t WatchKnownNs(const KubeWatch *watch);
extern int64_t WatchReportedNs(const KubeWatch *watch);
extern void WatchWork(KubeWatch *watch);

#endif							/* GPUCREDIT_KUBERNETES_WATCH_H */
