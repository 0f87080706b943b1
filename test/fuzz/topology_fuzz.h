/*-------------------------------------------------------------------------
 *
 * topology_fuzz.h
 *		What the fuzz targets of files about the cluster's topology share.
 *
 * Seeds are lines, so "~" stands for a line's end here. What a parser accepts
 * is the same when it is parsed again, has names of printable characters that
 * end, and is refused without its last line's end.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TOPOLOGY_FUZZ_H
#define GPUCREDIT_TOPOLOGY_FUZZ_H

#include "fuzz.h"

#include "../../agent/topology.h"

/* Checks that a name ends, and has no character that a name cannot have. */
static void
check_name(const char *name)
{
	size_t		length = strnlen(name, TOPOLOGY_NAME);

	CHECK(length < TOPOLOGY_NAME);
	for (size_t i = 0; i < length; i++)
		CHECK(name[i] > ' ' && name[i] <= '~');
}

/* Parses one input in memory of exactly its size. */
static int
check_parser(TopologyParser parse, const uint8_t *data, size_t size)
{
	TopologySelf self = {.node = "gpu1"};
	TopologySelf with = {.node = "gpu1", .guids = {0xa1, 0xa2}, .nguids = 2};
	Topology	found;
	Topology	again;
	char	   *text = malloc(size == 0 ? 1 : size);

	memcpy(text, data, size);
	for (size_t i = 0; i < size; i++)
	{
		if (text[i] == '~')
			text[i] = '\n';
	}
	memset(&found, 0x7f, sizeof(found));
	memset(&again, 0x70, sizeof(again));
	if (parse(text, size, &self, &found) == NULL)
	{
		CHECK(parse(text, size, &self, &again) == NULL);
		CHECK(memcmp(&found, &again, sizeof(found)) == 0);
		check_name(found.leaf);
		check_name(found.spine);
		check_name(found.nvlink_domain);
		CHECK(*found.leaf != '\0' || *found.spine == '\0');
		CHECK(found.leaf_mbps >= 0 && found.spine_mbps >= 0);
		CHECK(found.spine_mbps <= found.leaf_mbps);
		if (size > 0 && (size < 2 || text[size - 2] != '\n'))
			CHECK(size == 1 ||
				  parse(text, size - 1, &self, &again) != NULL);
	}
	else
		CHECK(*found.leaf == '\0' && *found.spine == '\0' &&
			  *found.nvlink_domain == '\0');
	(void) parse(text, size, &with, &again);
	free(text);
	return 0;
}

#endif							/* GPUCREDIT_TOPOLOGY_FUZZ_H */
