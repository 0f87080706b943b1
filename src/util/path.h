/*-------------------------------------------------------------------------
 *
 * path.h
 *		The tree of an organisation's accounts, which their names
 *		describe.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PATH_H
#define GPUCREDIT_PATH_H

/* Whether the account is `top` itself or lies below it. */
static inline bool
PathIsBelow(const char *account, const char *top)
{
	size_t		size = strlen(top);

	return size == 0 ||
		(strncmp(account, top, size) == 0 &&
		 (account[size] == '\0' || account[size] == '/'));
}

#endif							/* GPUCREDIT_PATH_H */
