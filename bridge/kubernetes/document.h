/*-------------------------------------------------------------------------
 *
 * document.h
 *		Reads Kubernetes' JSON documents.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_DOCUMENT_H
#define GPUCREDIT_KUBERNETES_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

/*
 * Follows a path of names into a document. Both macros return NULL if a part
 * of the path does not exist.
 */
#define DocumentGet(object, ...) \
	DocumentAt(object, (const char *const[]) {__VA_ARGS__, NULL})
#define DocumentText(object, ...) \
	json_string_value(DocumentGet(object, __VA_ARGS__))

extern json_t * DocumentAt(json_t * object, const char *const *names);
extern time_t DocumentTime(json_t * object, const char *name);
extern long DocumentSeconds(const char *text);
extern bool DocumentOlder(const char *one, const char *other);
extern long DocumentGrace(json_t * seconds);
extern long DocumentCount(const char *text, long most);

#endif							/* GPUCREDIT_KUBERNETES_DOCUMENT_H */
