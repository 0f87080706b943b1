/*-------------------------------------------------------------------------
 *
 * file_pattern.h
 *		Expands the pattern of an output file's name, as sbatch does.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_FILE_PATTERN_H
#define GPUCREDIT_AGENT_FILE_PATTERN_H

#include "launch.h"

extern char *FilePattern(const Launch *launch, const char *pattern);

#endif							/* GPUCREDIT_AGENT_FILE_PATTERN_H */
