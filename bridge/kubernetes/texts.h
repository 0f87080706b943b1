/*-------------------------------------------------------------------------
 *
 * texts.h
 *		Strings, and arrays and sets in the database's syntax.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_TEXTS_H
#define GPUCREDIT_KUBERNETES_TEXTS_H

#include <stdint.h>
#include <stddef.h>

/*
 * An array in the database's syntax, which grows as needed. A new one is
 * zeroed.
 */
typedef struct TextArray
{
	char	   *text;
	size_t		len;
	size_t		room;
	int			n;
} TextArray;

extern void TextSet(char **text, const char *value);
extern void TextsAdd(TextArray *array, const char *item);
extern const char *TextsOf(TextArray *array);
extern void TextsFree(TextArray *array);
extern char *DevicesText(uint64_t devices);
extern uint64_t DevicesOf(const char *text);

#endif							/* GPUCREDIT_KUBERNETES_TEXTS_H */
