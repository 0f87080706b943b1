/*-------------------------------------------------------------------------
 *
 * topology_yaml_fuzz.c
 *		Fuzz target: Slurm's topology.yaml.
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
	return check_parser(TopologyYamlParse, data, size);
}
