/*-------------------------------------------------------------------------
 *
 * network_address.c
 *		Parses addresses and networks.
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "network_address.h"

/*
 * Parses "A.B.C.D/BITS", or an address. Returns false if the text is neither.
 */
bool
NetworkParse(const char *text, Network *network)
{
	char		address[INET_ADDRSTRLEN];
	int			bits = 32;
	const char *slash = strchr(text, '/');
	size_t		len = slash == NULL ? strlen(text) : (size_t) (slash - text);

	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	if (slash != NULL)
	{
		char	   *end;

		bits = (int) strtol(slash + 1, &end, 10);
		if (end == slash + 1 || *end != '\0' || bits < 1 || bits > 32)
			return false;
	}
	*network = (Network)
	{
		.family = AF_INET, .bits = bits
	};
	if (inet_pton(AF_INET, address, network->address) != 1)
		return false;
	/* The kernel refuses a network that has a bit set after its prefix. */
	for (int i = 0; i < 4; i++)
	{
		int			left = bits - i * 8;

		network->address[i] &= left >= 8 ? 0xff : left <= 0 ? 0 :
			0xff << (8 - left);
	}
	return true;
}

/*
 * Whether each word of a list is a network or an address.
 */
bool
AreNetworks(const char *list)
{
	char	   *copy = Dup(list);
	char	   *rest = copy;
	char	   *one;
	bool		are = true;
	Network		network;

	while ((one = strsep(&rest, " \t")) != NULL)
	{
		if (*one != '\0' && !NetworkParse(one, &network))
			are = false;
	}
	free(copy);
	return are;
}
