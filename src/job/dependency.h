/*-------------------------------------------------------------------------
 *
 * dependency.h
 *		The text of a dependency, in the server's memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DEPENDENCY_H
#define GPUCREDIT_DEPENDENCY_H

#include "types/dependency_parse.h"

extern char *DependencyToCString(const Dependency *dependency);
extern char *DependencyTermText(const DependencyTerm *term);

#endif							/* GPUCREDIT_DEPENDENCY_H */
