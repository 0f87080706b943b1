/*-------------------------------------------------------------------------
 *
 * log_folder.h
 *		Writes the output of ended attempts to a folder of the site's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LOG_FOLDER_H
#define GPUCREDIT_AGENT_LOG_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

#include "attempts.h"

extern char *LogFolderFile(const LocalAttempt *attempt, int stream);
extern bool LogFolderWrite(LocalAttempt *attempt);
extern bool LogFolderChildGone(pid_t pid, int status);

#endif							/* GPUCREDIT_AGENT_LOG_FOLDER_H */
