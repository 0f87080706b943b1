/*-------------------------------------------------------------------------
 *
 * console.h
 *		The console's files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_CONSOLE_H
#define HTTP_CONSOLE_H

#include "request.h"

/* Read the files below a folder; false if it has no index.html. */
extern bool console_load(const char *folder);

/*
 * Answer a request whose address is the console's; false if it is not, or if
 * there is no console.
 */
extern bool console_answer(WebRequest *request);

#endif							/* HTTP_CONSOLE_H */
