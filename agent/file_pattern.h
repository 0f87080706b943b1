/*-------------------------------------------------------------------------
 *
 * file_pattern.h
 *		The name of an output file, from a pattern as sbatch has it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_FILE_PATTERN_H
#define GPUCREDIT_AGENT_FILE_PATTERN_H

#include "launch.h"

extern char *FilePattern(const Launch *launch, const char *pattern);

#endif							/* GPUCREDIT_AGENT_FILE_PATTERN_H */
