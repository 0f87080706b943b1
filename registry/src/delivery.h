/*-------------------------------------------------------------------------
 *
 * delivery.h
 *		How many bytes of an answer have reached the client.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRY_DELIVERY_H
#define REGISTRY_DELIVERY_H

#include <stdint.h>

/* The state of a connection when the body of an answer began. */
typedef struct Delivery
{
	int			socket;
	int64_t		written;		/* bytes that were written to it before */
} Delivery;

extern void delivery_begin(Delivery *delivery, int socket);
extern int64_t delivery_end(const Delivery *delivery, int64_t handed,
							int64_t length);

#endif							/* REGISTRY_DELIVERY_H */
