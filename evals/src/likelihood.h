/*-------------------------------------------------------------------------
 *
 * likelihood.h
 *		Decides the checks of cases that ask how likely texts are.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_LIKELIHOOD_H
#define GPUCREDIT_EVAL_LIKELIHOOD_H

#include "recheck.h"

extern Decision LikelihoodDecide(JsonbContainer *check, bool is_choice,
								 const char *output, int len);

#endif							/* GPUCREDIT_EVAL_LIKELIHOOD_H */
