/*-------------------------------------------------------------------------
 *
 * key_space.h
 *		Key spaces: which callers share idempotency keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KEY_SPACE_H
#define GPUCREDIT_KEY_SPACE_H

/* The prefix of the names of companion extensions. */
#define KEY_SPACE_COMPANION "gpucredit_"

extern void KeySpaceInit(void);
extern const char *KeySpace(void);
extern const char *KeySpaceOfCaller(void);

#endif							/* GPUCREDIT_KEY_SPACE_H */
