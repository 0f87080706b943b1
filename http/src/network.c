/*-------------------------------------------------------------------------
 *
 * network.c
 *		Decides which addresses the daemon connects to on behalf of others.
 *
 * A tenant chooses the address of a webhook, and an identity provider that of
 * its keys, and the daemon's machine can reach networks that they cannot.
 * Therefore an address is checked when the daemon is about to connect to it:
 * by then, a name or an unusual notation has been resolved, and the address
 * cannot change any more.
 *
 * The daemon's own addresses are refused too, even if they are public: a
 * connection to one never leaves the machine, so it bypasses firewalls in
 * front of the machine.
 *
 * All addresses are compared as IPv6 addresses. An IPv4 address, and one that
 * is mapped into IPv6 (::ffff:0:0/96, or NAT64's 64:ff9b::/96), is checked as
 * the IPv4 address that it leads to.
 *-------------------------------------------------------------------------
 */
#include "network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Reserved networks. For IPv4, the prefix becomes 96 bits longer, as
 * ::ffff:ADDRESS.
 */
static const struct
{
	const char *address;
	int			bits;
}			reserved[] = {
	{"0.0.0.0", 8},				/* this host */
	{"10.0.0.0", 8},			/* private */
	{"100.64.0.0", 10},			/* shared address space of providers
								 * (carrier-grade NAT) */
	{"127.0.0.0", 8},			/* loopback */
	{"168.63.129.16", 32},		/* Azure's host, reachable only from its
								 * machines */
	{"169.254.0.0", 16},		/* link-local, including the metadata services
								 * of clouds */
	{"172.16.0.0", 12},			/* private */
	{"192.0.0.0", 24},			/* protocol assignments */
	{"192.0.2.0", 24},			/* documentation */
	{"192.88.99.0", 24},		/* relays to IPv6 */
	{"192.168.0.0", 16},		/* private */
	{"198.18.0.0", 15},			/* benchmarks */
	{"198.51.100.0", 24},		/* documentation */
	{"203.0.113.0", 24},		/* documentation */
	{"224.0.0.0", 4},			/* multicast */
	{"240.0.0.0", 4},			/* reserved, and broadcast */
	{"2001::", 23},				/* protocol assignments, and Teredo */
	{"2001:db8::", 32},			/* documentation */
	{"2002::", 16},				/* 6to4, which can contain any IPv4 address */
	{"3fff::", 20}				/* documentation */
};

/*
 * Parses an address of either kind. Returns the number of bits to add to an
 * IPv4 prefix, or -1 if the address is malformed.
 */
static int
parse_address(const char *text, struct in6_addr *address)
{
	struct in_addr four;

	if (inet_pton(AF_INET6, text, address) == 1)
		return 0;
	if (inet_pton(AF_INET, text, &four) != 1)
		return -1;
	memset(address, 0, sizeof(*address));
	address->s6_addr[10] = address->s6_addr[11] = 0xff;
	memcpy(&address->s6_addr[12], &four, sizeof(four));
	return 96;
}

/* Whether the first bits of two addresses are equal. */
static bool
is_within(const struct in6_addr *address, const struct in6_addr *network, int bits)
{
	int			bytes = bits / 8;
	int			mask = 0xff00 >> (bits % 8) & 0xff;

	return memcmp(address->s6_addr, network->s6_addr, (size_t) bytes) == 0 &&
		(bits % 8 == 0 ||
		 ((address->s6_addr[bytes] ^ network->s6_addr[bytes]) & mask) == 0);
}

/*
 * Converts a socket's address to the address that it leads to. Returns false
 * if it is not an IP address.
 */
static bool
address_of(const struct sockaddr *socket_address, struct in6_addr *address)
{
	static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b};

	memset(address, 0, sizeof(*address));
	if (socket_address->sa_family == AF_INET)
	{
		const struct sockaddr_in *four = (const struct sockaddr_in *) (const void *) socket_address;

		address->s6_addr[10] = address->s6_addr[11] = 0xff;
		memcpy(&address->s6_addr[12], &four->sin_addr, sizeof(four->sin_addr));
		return true;
	}
	if (socket_address->sa_family != AF_INET6)
		return false;
	*address = ((const struct sockaddr_in6 *) (const void *) socket_address)->sin6_addr;
	if (memcmp(address->s6_addr, nat64, sizeof(nat64)) == 0)
	{
		memset(address->s6_addr, 0, 10);
		address->s6_addr[10] = address->s6_addr[11] = 0xff;
	}
	return true;
}

/*
 * Whether this machine has the address. Returns true also if that cannot be
 * determined.
 */
static bool
is_own(const struct in6_addr *target)
{
	struct ifaddrs *list = NULL;
	bool		found = false;

	if (getifaddrs(&list) != 0)
		return true;
	for (struct ifaddrs *one = list; one != NULL && !found; one = one->ifa_next)
	{
		struct in6_addr address;

		found = one->ifa_addr != NULL && address_of(one->ifa_addr, &address) &&
			IN6_ARE_ADDR_EQUAL(&address, target);
	}
	freeifaddrs(list);
	return found;
}

/* Adds one network, written as ADDRESS/BITS. */
static bool
allow_network(NetworkList * list, const char *text, size_t size)
{
	char		copy[64];
	char	   *slash;
	char	   *end;
	long		bits;
	int			before;
	NetworkRange *range = &list->ranges[list->n];

	if (size >= sizeof(copy) || list->n == NETWORKS_MOST)
		return false;
	memcpy(copy, text, size);
	copy[size] = '\0';
	slash = strchr(copy, '/');
	if (slash == NULL)
		return false;
	*slash = '\0';
	before = parse_address(copy, &range->address);
	bits = strtol(slash + 1, &end, 10);
	if (before < 0 || slash[1] < '0' || slash[1] > '9' || *end != '\0' ||
		bits > 128 - before)
		return false;
	range->bits = (int) bits + before;
	list->n++;
	return true;
}

bool
networks_allow(NetworkList * list, const char *text)
{
	while (*text != '\0')
	{
		size_t		size = strcspn(text, ",");

		if (!allow_network(list, text, size))
			return false;
		text += size;
		if (*text == ',' && *++text == '\0')
			return false;
	}
	return true;
}

bool
network_is_allowed(const NetworkList * list, const struct sockaddr *address)
{
	struct in6_addr target;

	if (!address_of(address, &target))
		return false;
	for (int i = 0; i < list->n; i++)
		if (is_within(&target, &list->ranges[i].address, list->ranges[i].bits))
			return true;
	return false;
}

bool
network_is_public(const struct sockaddr *address)
{
	struct in6_addr target;

	if (!address_of(address, &target))
		return false;
	/* the only IPv6 addresses assigned for the internet: 2000::/3 */
	if (!IN6_IS_ADDR_V4MAPPED(&target) && (target.s6_addr[0] & 0xe0) != 0x20)
		return false;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
	{
		struct in6_addr network;
		int			before = parse_address(reserved[i].address, &network);

		if (is_within(&target, &network, reserved[i].bits + before))
			return false;
	}
	return !is_own(&target);
}
