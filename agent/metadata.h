/*-------------------------------------------------------------------------
 *
 * metadata.h
 *		Makes one request to the metadata service of a cloud.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_METADATA_H
#define GPUCREDIT_AGENT_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define METADATA_MOST	(256 * 1024)	/* longest body in bytes */
#define METADATA_HEADERS	2

typedef struct MetadataAnswer
{
	long		status;			/* of HTTP */
	time_t		date;			/* the service's clock, or this machine's if
								 * the answer has no date */
	size_t		size;
	char		body[METADATA_MOST + 1];	/* ends with a zero byte */
} MetadataAnswer;

extern bool MetadataOpen(void);
extern const char *MetadataRequest(const char *method, const char *path,
								   const char *const headers[METADATA_HEADERS],
								   MetadataAnswer *answer);

#endif							/* GPUCREDIT_AGENT_METADATA_H */
