/*-------------------------------------------------------------------------
 *
 * path.h
 *		The tree of an organisation's accounts, by name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PATH_H
#define GPUCREDIT_PATH_H

/*
 * Is an account another one, or below it?
 */
static inline bool
PathIsBelow(const char *account, const char *top)
{
	size_t		size = strlen(top);

	return size == 0 ||
		(strncmp(account, top, size) == 0 &&
		 (account[size] == '\0' || account[size] == '/'));
}

#endif							/* GPUCREDIT_PATH_H */
