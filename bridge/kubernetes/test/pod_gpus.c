/*-------------------------------------------------------------------------
 *
 * pod_gpus.c
 *		Prints how many GPUs the bridge counts for each pod, for a test.
 *
 * The pods come as JSON, one per line, on standard input.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "../pod_request.h"

int
main(void)
{
	char		line[65536];

	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		json_t	   *pod = json_loads(line, 0, NULL);
		PodRequest	request = {0};

		PodRequestRead(&request, pod);
		printf("%ld%s\n", request.gpus, request.gpus == 0 && request.devices ?
			   " and devices" : "");
		PodRequestFree(&request);
		json_decref(pod);
	}
	return 0;
}
