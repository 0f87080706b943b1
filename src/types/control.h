/*-------------------------------------------------------------------------
 *
 * control.h
 *		Characters that a terminal obeys and a reader does not see.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CONTROL_H
#define GPUCREDIT_CONTROL_H

#include "mb/pg_wchar.h"

extern const char *ControlCharIn(const char *text, int len, int *size,
								 pg_wchar *code);

#endif							/* GPUCREDIT_CONTROL_H */
