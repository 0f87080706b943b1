/*-------------------------------------------------------------------------
 *
 * utf8.h
 *		Makes text valid UTF-8, which the database requires.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_UTF8_H
#define LIB_UTF8_H

extern void Utf8Mend(char *text);

#endif							/* LIB_UTF8_H */
