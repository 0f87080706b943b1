/*-------------------------------------------------------------------------
 *
 * console.h
 *		Serves the console's files.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_CONSOLE_H
#define HTTP_CONSOLE_H

#include "request.h"

/* Reads the files below a folder. Returns false if it has no index.html. */
extern bool console_load(const char *folder);

/*
 * Answers a request whose address is the console's. Returns false if the
 * address is not, or if the daemon has no console.
 */
extern bool console_answer(WebRequest *request);

#endif							/* HTTP_CONSOLE_H */
