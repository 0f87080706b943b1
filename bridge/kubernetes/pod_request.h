/*-------------------------------------------------------------------------
 *
 * pod_request.h
 *		What a pod, or the template of one, asks for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_POD_REQUEST_H
#define GPUCREDIT_KUBERNETES_POD_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#define MOST_GPUS		64		/* of a node */
#define WORD(name)		"gpucredit.io/" name

typedef struct PodRequest
{
	const char *wrong;			/* what is wrong with it; NULL: nothing */
	long		gpus;
	char	   *account;		/* below the namespace's */
	char	   *type;			/* in order of preference; NULL: any */
	char	   *selected;		/* its nodeSelector's type, or NULL */
	char	   *tier;
	char	   *gang;
	long		gang_size;
	long		wall_s;			/* 0: none */
	long		window_s;
	long		deadline_s;		/* its activeDeadlineSeconds; 0: none */
} PodRequest;

extern void PodRequestRead(PodRequest *request, json_t * object);
extern bool PodRequestEqual(const PodRequest *a, const PodRequest *b);
extern void PodRequestCopy(PodRequest *request, const PodRequest *other);
extern void PodRequestFree(PodRequest *request);
extern bool TypeAmong(const char *types, const char *type);

#endif							/* GPUCREDIT_KUBERNETES_POD_REQUEST_H */
