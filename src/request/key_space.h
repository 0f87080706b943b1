/*-------------------------------------------------------------------------
 *
 * key_space.h
 *		Whose idempotency keys a call uses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KEY_SPACE_H
#define GPUCREDIT_KEY_SPACE_H

/* What the name of a companion extension begins with. */
#define KEY_SPACE_COMPANION "gpucredit_"

extern void KeySpaceInit(void);
extern const char *KeySpace(void);
extern const char *KeySpaceOfCaller(void);

#endif							/* GPUCREDIT_KEY_SPACE_H */
