/*-------------------------------------------------------------------------
 *
 * dependency.h
 *		Converts a dependency to text in memory of the server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DEPENDENCY_H
#define GPUCREDIT_DEPENDENCY_H

#include "types/dependency_parse.h"

extern char *DependencyToCString(const Dependency *dependency);
extern char *DependencyTermText(const DependencyTerm *term);

#endif							/* GPUCREDIT_DEPENDENCY_H */
