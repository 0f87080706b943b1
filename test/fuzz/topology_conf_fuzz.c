/*-------------------------------------------------------------------------
 *
 * topology_conf_fuzz.c
 *		Fuzz target: Slurm's topology.conf.
 *
 *-------------------------------------------------------------------------
 */
#include "topology_fuzz.h"

/*
 * One input.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_parser(TopologyConfParse, data, size);
}
