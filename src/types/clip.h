/*-------------------------------------------------------------------------
 *
 * clip.h
 *		A caller's text, made fit for an error message.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLIP_H
#define GPUCREDIT_CLIP_H

/* Longest piece of a caller's text that an error message repeats, in bytes. */
#define CLIP_BYTES	64

extern const char *ClipForMessage(const char *text);

#endif							/* GPUCREDIT_CLIP_H */
