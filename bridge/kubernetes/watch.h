/*-------------------------------------------------------------------------
 *
 * watch.h
 *		Keeps a list of the API server's objects up to date.
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
 * One kind of objects. put() receives each new version of an object, and
 * drop() an object that was removed. Before a list, mark() marks all known
 * objects as not seen; after it, sweep() drops those that the list did not
 * contain.
 */
typedef struct KubeWatch
{
	const char *path;
	void		(*mark) (void);
	void		(*put) (json_t * object);
	void		(*drop) (json_t * object);
	void		(*sweep) (void);
	WatchStage	stage;
	bool		complete;		/* one list was read to its end */
	char	   *version;		/* the last version that was seen, or NULL if
								 * a list is needed */
	char	   *more;			/* token for the list's next page, or NULL for
								 * the first page */
	char	   *line;			/* the received part of an incomplete event */
	size_t		len;
	size_t		room;
	int64_t		again_ns;		/* when to make the next call */
	int			failures;
	int64_t		list_ns;		/* when the last list was requested */
	int64_t		heard_ns;		/* the last time at which all objects were
								 * known */
	int64_t		gap_ns;			/* value of heard_ns before the last gap */
	int64_t		behind_ns;		/* until when events may stem from that gap */
	int64_t		reported_ns;	/* time up to which kubelets' reports have
								 * arrived */
	int64_t		late_until_ns;	/* time by which their later reports will have
								 * arrived */
} KubeWatch;

extern int64_t WatchKnownNs(const KubeWatch *watch);
extern int64_t WatchReportedNs(const KubeWatch *watch);
extern void WatchWork(KubeWatch *watch);

#endif							/* GPUCREDIT_KUBERNETES_WATCH_H */
