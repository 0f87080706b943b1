/*-------------------------------------------------------------------------
 *
 * wish.h
 *		What a pod, or the template of one, asks for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_WISH_H
#define GPUCREDIT_KUBERNETES_WISH_H

#include <jansson.h>
#include <stdbool.h>

#define MOST_GPUS		64		/* of a node */
#define WORD(name)		"gpucredit.io/" name

typedef struct KubeWish
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
} KubeWish;

extern void WishRead(KubeWish *wish, json_t * object);
extern bool WishAlike(const KubeWish *a, const KubeWish *b);
extern void WishTake(KubeWish *wish, const KubeWish *other);
extern void WishFree(KubeWish *wish);
extern bool TypeAmong(const char *types, const char *type);

#endif							/* GPUCREDIT_KUBERNETES_WISH_H */
