/*-------------------------------------------------------------------------
 *
 * fabric_fuzz.c
 *		Fuzz target: the output of ibnetdiscover.
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
	return check_parser(FabricParse, data, size);
}
