/*-------------------------------------------------------------------------
 *
 * fabric.c
 *		Reads an InfiniBand fabric from the output of ibnetdiscover.
 *
 * The file has a part for each switch ("Switch"), adapter ("Ca") and router
 * ("Rt"), with a line for each port that has a cable:
 *
 *     switchguid=0xb83fd2030028a5c0(b83fd2030028a5c0)
 *     Switch  65 "S-b83fd2030028a5c0"  # "leaf1" enhanced port 0 lid 1 lmc 0
 *     [1]     "H-0002c90300a1b2c0"[1](2c90300a1b2c1)  # "gpu1 mlx5_0" lid 9 4xNDR
 *     [33]    "S-b83fd2030028b000"[1]  # "spine1" lid 3 4xNDR
 *
 * Whatever a cable leads to has a part of its own, so a file in which one is
 * missing was not written to its end, and is refused.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define MOST_DEVICES_IN_FABRIC	400000
#define MOST_LINKS				4000000

static const char *read_line(Fabric *fabric, const char *at, const char *end,
							 int *present);
static const char *read_header(Fabric *fabric, const char *at,
							   const char *end, int *present);
static void read_host(FabricDevice *device, const char *at, const char *end);
static const char *read_port(Fabric *fabric, const char *at, const char *end,
							 int present);
static bool read_device(const char **at, const char *end, FabricKind *kind,
						uint64_t *guid);
static int64_t read_speed(const char *at, const char *end);
static bool begins(const char *at, const char *end, const char *with);
static bool grow(void **array, int n, int *size, size_t width);
static bool grow_slots(Fabric *fabric);
static int *slot_of(Fabric *fabric, FabricKind kind, uint64_t guid);

const char *
FabricParse(const char *text, size_t size, const TopologySelf *self,
			Topology *found)
{
	Fabric		fabric = {0};
	const char *why;

	memset(found, 0, sizeof(*found));
	if (size > 0 && text[size - 1] != '\n')
		return "the file does not end with a line's end";
	why = FabricRead(&fabric, text, size);
	if (why == NULL)
		why = FabricPlace(&fabric, self, found);
	if (fabric.out_of_memory)
		why = "the fabric is too large";
	FabricFree(&fabric);
	if (why != NULL)
		memset(found, 0, sizeof(*found));
	return why;
}

/* Reads a text that ends with a line's end. Names point into the text. */
const char *
FabricRead(Fabric *fabric, const char *text, size_t size)
{
	const char *end = text + size;
	const char *why = NULL;
	int			present = -1;

	while (text < end && why == NULL)
	{
		const char *stop = memchr(text, '\n', (size_t) (end - text));

		why = read_line(fabric, text, stop, &present);
		text = stop + 1;
	}
	for (int i = 0; i < fabric->ndevices && why == NULL; i++)
	{
		if (!fabric->devices[i].described)
			why = "a cable leads to what the file does not describe";
	}
	return why;
}

/* Reads one line. *present is the device whose part of the file it is. */
static const char *
read_line(Fabric *fabric, const char *at, const char *end, int *present)
{
	static const char *const other[] = {
		"#", "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=",
		"rtguid=", "Chassis", "Non-Chassis", "DR path"
	};

	if (end > at && end[-1] == '\r')
		end--;
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	if (at == end)
		return NULL;
	if (memchr(at, '\0', (size_t) (end - at)) != NULL)
		return "the file is no text";
	if (*at == '[')
		return read_port(fabric, at, end, *present);
	if (begins(at, end, "Switch") || begins(at, end, "Ca") ||
		begins(at, end, "Rt"))
		return read_header(fabric, at, end, present);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
	{
		if (begins(at, end, other[i]))
			return NULL;
	}
	return "a line is not one of ibnetdiscover's";
}

/* Reads the line with which a device's part of the file begins. */
static const char *
read_header(Fabric *fabric, const char *at, const char *end, int *present)
{
	FabricKind	wanted = *at == 'S' ? FABRIC_SWITCH :
		*at == 'C' ? FABRIC_ADAPTER : FABRIC_ROUTER;
	FabricKind	kind;
	uint64_t	guid;
	FabricDevice *device;

	at = memchr(at, '"', (size_t) (end - at));
	if (at == NULL || !read_device(&at, end, &kind, &guid) || kind != wanted)
		return "the name of a device is malformed";
	*present = FabricDeviceNumber(fabric, kind, guid);
	if (*present < 0)
		return "the fabric is too large";
	device = &fabric->devices[*present];
	if (device->described)
		return "a device is described twice";
	device->described = true;
	if (kind == FABRIC_ADAPTER)
		read_host(device, at, end);
	return NULL;
}

/*
 * Reads from an adapter's description which host it is in. Switches that
 * compute have adapters as well, which are in no host.
 */
static void
read_host(FabricDevice *device, const char *at, const char *end)
{
	const char *close;

	device->counts = true;
	at = memchr(at, '#', (size_t) (end - at));
	at = at == NULL ? NULL : memchr(at, '"', (size_t) (end - at));
	if (at == NULL)
		return;
	at++;
	close = memchr(at, '"', (size_t) (end - at));
	if (close == NULL)
		return;
	if (memmem(at, (size_t) (close - at), "Aggregation Node", 16) != NULL)
	{
		device->counts = false;
		return;
	}
	device->host = at;
	while (at < close && *at != ' ')
		at++;
	device->host_size = (size_t) (at - device->host);
	/* names that an adapter has before its host gives it one */
	if (device->host_size >= TOPOLOGY_NAME || device->host_size == 0 ||
		begins(device->host, close, "localhost") ||
		begins(device->host, close, "Mellanox") ||
		(begins(device->host, close, "MT") && device->host_size > 2 &&
		 device->host[2] >= '0' && device->host[2] <= '9'))
	{
		device->host = NULL;
		device->host_size = 0;
	}
}

/* Reads a port's line. Those of switches name every cable. */
static const char *
read_port(Fabric *fabric, const char *at, const char *end, int present)
{
	FabricKind	kind;
	uint64_t	guid;
	FabricLink	link = {.from = present};
	const char *quote = memchr(at, '"', (size_t) (end - at));

	if (present < 0)
		return "a port belongs to nothing";
	if (at + 1 == end || at[1] < '0' || at[1] > '9' || quote == NULL ||
		!read_device(&quote, end, &kind, &guid) || quote == end ||
		*quote != '[')
		return "the line of a port is malformed";
	link.to = FabricDeviceNumber(fabric, kind, guid);
	if (link.to < 0)
		return "the fabric is too large";
	if (fabric->devices[present].kind != FABRIC_SWITCH || link.to == present)
		return NULL;
	link.mbps = read_speed(quote, end);
	return FabricLinkAdd(fabric, link) ? NULL : "the fabric is too large";
}

/*
 * Reads a device's name with its quotation marks, such as
 * "S-b83fd2030028a5c0", and moves *at behind it.
 */
static bool
read_device(const char **at, const char *end, FabricKind *kind,
			uint64_t *guid)
{
	const char *c = *at + 1;
	int			digits = 0;

	if (end - c < 4 || (*c != 'S' && *c != 'H' && *c != 'R') || c[1] != '-')
		return false;
	*kind = (FabricKind) *c;
	*guid = 0;
	for (c += 2; c < end && *c != '"'; c++)
	{
		int			digit = *c >= '0' && *c <= '9' ? *c - '0' :
			*c >= 'a' && *c <= 'f' ? *c - 'a' + 10 :
			*c >= 'A' && *c <= 'F' ? *c - 'A' + 10 : -1;

		if (digit < 0 || ++digits > 16)
			return false;
		*guid = *guid << 4 | (uint64_t) digit;
	}
	*at = c + 1;
	return c < end && digits > 0;
}

/*
 * Reads the width and speed at the end of a port's line, such as 4xNDR, in
 * Mb/s of data. Returns 0 if it has none.
 */
static int64_t
read_speed(const char *at, const char *end)
{
	static const struct
	{
		const char *name;
		int64_t		lane;
	}			speeds[] = {
		{"SDR", 2000}, {"DDR", 4000}, {"QDR", 8000}, {"FDR10", 10000},
		{"FDR", 13640}, {"EDR", 25000}, {"HDR", 50000}, {"NDR", 100000},
		{"XDR", 200000}
	};
	const char *word = end;
	int64_t		lanes = 0;

	while (word > at && word[-1] != ' ' && word[-1] != '\t')
		word--;
	for (; word < end && *word >= '0' && *word <= '9' && lanes < 100; word++)
		lanes = lanes * 10 + (*word - '0');
	if (lanes < 1 || lanes > 12 || word == end || *word++ != 'x')
		return 0;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
	{
		size_t		length = strlen(speeds[i].name);

		if ((size_t) (end - word) == length &&
			memcmp(word, speeds[i].name, length) == 0)
			return lanes * speeds[i].lane;
	}
	return 0;
}

static bool
begins(const char *at, const char *end, const char *with)
{
	size_t		length = strlen(with);

	return (size_t) (end - at) >= length && memcmp(at, with, length) == 0;
}

/* Returns the number of a device, which is added if it is new, or -1. */
int
FabricDeviceNumber(Fabric *fabric, FabricKind kind, uint64_t guid)
{
	int		   *slot;

	if (fabric->ndevices * 2 >= fabric->nslots && !grow_slots(fabric))
		return -1;
	slot = slot_of(fabric, kind, guid);
	if (*slot >= 0)
		return *slot;
	if (fabric->ndevices == MOST_DEVICES_IN_FABRIC ||
		!grow((void **) &fabric->devices, fabric->ndevices,
			  &fabric->devices_size, sizeof(FabricDevice)))
	{
		fabric->out_of_memory = true;
		return -1;
	}
	fabric->devices[fabric->ndevices] = (FabricDevice)
	{
		.kind = kind, .guid = guid
	};
	*slot = fabric->ndevices;
	return fabric->ndevices++;
}

/* Returns the place of a device in the hash table, which may be free. */
static int *
slot_of(Fabric *fabric, FabricKind kind, uint64_t guid)
{
	uint64_t	hash = (guid ^ (uint64_t) kind << 56) *
		UINT64_C(0x9e3779b97f4a7c15);
	int			i = (int) ((hash >> 20) & (uint64_t) (fabric->nslots - 1));

	while (fabric->slots[i] >= 0 &&
		   (fabric->devices[fabric->slots[i]].guid != guid ||
			fabric->devices[fabric->slots[i]].kind != kind))
		i = (i + 1) & (fabric->nslots - 1);
	return &fabric->slots[i];
}

/* Doubles the hash table. Returns false if memory runs out. */
static bool
grow_slots(Fabric *fabric)
{
	int			n = fabric->nslots == 0 ? 256 : fabric->nslots * 2;
	int		   *slots = malloc((size_t) n * sizeof(int));

	if (slots == NULL)
	{
		fabric->out_of_memory = true;
		return false;
	}
	free(fabric->slots);
	fabric->slots = slots;
	fabric->nslots = n;
	for (int i = 0; i < n; i++)
		slots[i] = -1;
	for (int i = 0; i < fabric->ndevices; i++)
		*slot_of(fabric, fabric->devices[i].kind,
				 fabric->devices[i].guid) = i;
	return true;
}

/* Adds a cable. Returns false if there are too many. */
bool
FabricLinkAdd(Fabric *fabric, FabricLink link)
{
	if (fabric->nlinks == MOST_LINKS ||
		!grow((void **) &fabric->links, fabric->nlinks, &fabric->links_size,
			  sizeof(FabricLink)))
	{
		fabric->out_of_memory = true;
		return false;
	}
	fabric->links[fabric->nlinks++] = link;
	return true;
}

/* Makes room for one more element. Returns false if memory runs out. */
static bool
grow(void **array, int n, int *size, size_t width)
{
	int			larger = *size == 0 ? 256 : *size * 2;
	void	   *more;

	if (n < *size)
		return true;
	more = realloc(*array, (size_t) larger * width);
	if (more == NULL)
		return false;
	*array = more;
	*size = larger;
	return true;
}

void
FabricFree(Fabric *fabric)
{
	free(fabric->devices);
	free(fabric->slots);
	free(fabric->links);
	memset(fabric, 0, sizeof(*fabric));
}
