/*-------------------------------------------------------------------------
 *
 * pod_request.h
 *		Parses the request of a pod, or of a pod template.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_POD_REQUEST_H
#define GPUCREDIT_KUBERNETES_POD_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#define MOST_GPUS		64		/* most GPUs of one node */
#define WORD(name)		"gpucredit.io/" name

typedef struct PodRequest
{
	const char *wrong;			/* what is wrong with the request, or NULL */
	bool		devices;		/* it requests GPUs, or parts of one */
	long		gpus;
	long		grace_s;		/* the longest time that its containers get to
								 * end */
	char	   *account;		/* account below the namespace's */
	char	   *type;			/* GPU types in order of preference, or NULL
								 * for any */
	char	   *selected;		/* GPU type in its nodeSelector, or NULL */
	char	   *tier;
	char	   *gang;
	long		gang_size;
	long		wall_s;			/* wall limit, or 0 for none */
	long		window_s;
	long		deadline_s;		/* its activeDeadlineSeconds, or 0 for none */
} PodRequest;

extern void PodRequestRead(PodRequest *request, json_t * object);
extern bool PodRequestEqual(const PodRequest *a, const PodRequest *b);
extern void PodRequestCopy(PodRequest *request, const PodRequest *other);
extern void PodRequestFree(PodRequest *request);
extern bool TypeAmong(const char *types, const char *type);

#endif							/* GPUCREDIT_KUBERNETES_POD_REQUEST_H */
