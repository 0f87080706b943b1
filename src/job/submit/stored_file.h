/*-------------------------------------------------------------------------
 *
 * stored_file.h
 *		Scripts and environments that are too large for a job's spec.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_STORED_FILE_H
#define GPUCREDIT_STORED_FILE_H

#include "job/submit/submission.h"

extern void StoredFilesLock(const Submission *submission);
extern void StoredFilesKeep(const Submission *submission);

#endif							/* GPUCREDIT_STORED_FILE_H */
