/*-------------------------------------------------------------------------
 *
 * topology_read.c
 *		gpucredit-agent topology CONFIG: reads where this node is in the
 *		cluster.
 *
 * The file may be huge, or written to take long, so a process of its own reads
 * it, once, with limits of time and memory. It writes one line:
 *
 *     place LEAF SPINE DOMAIN LEAF_MBPS SPINE_MBPS   "-" for no name
 *     absent                                         The file has no such node.
 *     failed WHY                                     The file is refused.
 *
 * An operator runs it to see what an agent makes of a file.
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "memory.h"
#include "topology.h"
#include "topology_read.h"

#define MOST_BYTES		((off_t) 256 << 20)
#define CPU_S			20
#define MEMORY_BYTES	((rlim_t) 2 << 30)

static const struct
{
	const char *prefix;
	TopologyParser parse;
}			formats[] = {
	{"conf:", TopologyConfParse},
	{"yaml:", TopologyYamlParse},
	{"ibnetdiscover:", FabricParse},
};

#define FORMATS	((int) (sizeof(formats) / sizeof(formats[0])))

static int	format_of(const char *setting);
static void limit(void);
static const char *read_file(const char *path, char **text, size_t *size);
static void read_guids(TopologySelf *self);
static const char *word(const char *name);

/* Whether a value of the setting names a file of a known form. */
bool
TopologyFileKnown(const char *setting)
{
	int			format = format_of(setting);

	return format < FORMATS &&
		setting[strlen(formats[format].prefix)] != '\0';
}

static int
format_of(const char *setting)
{
	int			format = 0;

	while (format < FORMATS && strncmp(setting, formats[format].prefix,
									   strlen(formats[format].prefix)) != 0)
		format++;
	return format;
}

/* Reads the file and ends. */
void
TopologyReadRun(void)
{
	static TopologySelf self;
	static Topology found;
	int			format = format_of(config.topology);
	char	   *text = NULL;
	size_t		size = 0;
	const char *why;

	if (format == FORMATS)
	{
		puts("failed topology names no file");
		exit(1);
	}
	limit();
	self.node = config.node == NULL ? "" : config.node;
	read_guids(&self);
	why = read_file(config.topology + strlen(formats[format].prefix), &text,
					&size);
	if (why == NULL)
		why = formats[format].parse(text, size, &self, &found);
	if (why != NULL)
		printf("failed %s\n", why);
	else if (*found.leaf == '\0' && *found.nvlink_domain == '\0')
		puts("absent");
	else
		printf("place %s %s %s %lld %lld\n", word(found.leaf),
			   word(found.spine), word(found.nvlink_domain),
			   (long long) found.leaf_mbps, (long long) found.spine_mbps);
	exit(why == NULL ? 0 : 1);
}

/* Limits what a hostile file can cost. */
static void
limit(void)
{
	struct rlimit cpu = {CPU_S, CPU_S};
	struct rlimit memory = {MEMORY_BYTES, MEMORY_BYTES};

	(void) setrlimit(RLIMIT_CPU, &cpu);
	(void) setrlimit(RLIMIT_AS, &memory);
}

/*
 * Reads a file that nobody writes meanwhile. Returns NULL, or why not.
 */
static const char *
read_file(const char *path, char **text, size_t *size)
{
	struct stat before;
	struct stat after;
	int			fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &before) != 0)
		return strerror(errno);
	if (!S_ISREG(before.st_mode))
		return "it is no regular file";
	if (before.st_size > MOST_BYTES)
		return "the file is too large";
	*text = malloc((size_t) before.st_size + 1);
	if (*text == NULL)
		return "out of memory";
	while (*size < (size_t) before.st_size)
	{
		ssize_t		n = read(fd, *text + *size,
							 (size_t) before.st_size - *size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		*size += (size_t) n;
	}
	if (fstat(fd, &after) != 0 || after.st_size != before.st_size ||
		*size != (size_t) before.st_size ||
		after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
		after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
		return "the file was written while it was read";
	close(fd);
	return NULL;
}

/*
 * Reads the GUIDs of this machine's adapters. A machine has none if it has no
 * InfiniBand, or if another machine's file is tried out.
 */
static void
read_guids(TopologySelf *self)
{
	DIR		   *dir = opendir(config.infiniband);
	struct dirent *entry;

	while (dir != NULL && self->nguids < MOST_HCAS &&
		   (entry = readdir(dir)) != NULL)
	{
		char	   *path;
		FILE	   *file;
		unsigned int part[4];

		if (*entry->d_name == '.')
			continue;
		path = Format("%s/%s/node_guid", config.infiniband, entry->d_name);
		file = fopen(path, "re");
		if (file != NULL && fscanf(file, "%4x:%4x:%4x:%4x", &part[0], &part[1],
								   &part[2], &part[3]) == 4)
			self->guids[self->nguids++] = (uint64_t) part[0] << 48 |
				(uint64_t) part[1] << 32 | (uint64_t) part[2] << 16 | part[3];
		if (file != NULL)
			fclose(file);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
}

static const char *
word(const char *name)
{
	return *name == '\0' ? "-" : name;
}
