/*-------------------------------------------------------------------------
 *
 * books.h
 *		The calls of the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_BOOKS_H
#define GPUCREDIT_KUBERNETES_BOOKS_H

#include <stdbool.h>

extern bool BooksLoaded(void);
extern void BooksTurn(void);

#endif							/* GPUCREDIT_KUBERNETES_BOOKS_H */
