/*-------------------------------------------------------------------------
 *
 * serve.h
 *		Listens, and moves requests through their steps.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_SERVE_H
#define HTTP_SERVE_H

#include <microhttpd.h>

extern struct MHD_Daemon *serve_start(void);
extern void serve_stop(struct MHD_Daemon *daemon);

#endif							/* HTTP_SERVE_H */
