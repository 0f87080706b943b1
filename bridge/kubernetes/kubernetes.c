/*-------------------------------------------------------------------------
 *
 * kubernetes.c
 *		gpucredit-bridge kubernetes: one thread, one loop.
 *
 *-------------------------------------------------------------------------
 */
#include "../bridge.h"
#include "config.h"
#include "db.h"
#include "util.h"

int
KubernetesMain(int argc, char **argv)
{
	if (argc != 1)
		Die("usage: gpucredit-bridge kubernetes CONFIG");
	KubeConfigRead(argv[0]);
	DbUse(kube.database, NULL, NULL);
	return 0;
}
