/*-------------------------------------------------------------------------
 *
 * serve.h
 *		Serves requests.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_SERVE_H
#define REGISTRYD_SERVE_H

#include <microhttpd.h>

extern struct MHD_Daemon *serve(void);

#endif							/* REGISTRYD_SERVE_H */
