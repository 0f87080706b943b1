/*-------------------------------------------------------------------------
 *
 * json_depth.h
 *		Measures how deep JSON is nested.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_JSON_DEPTH_H
#define GPUCREDIT_EVAL_JSON_DEPTH_H

extern bool JsonIsTooDeep(const char *text, int len);

#endif							/* GPUCREDIT_EVAL_JSON_DEPTH_H */
