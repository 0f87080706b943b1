/*-------------------------------------------------------------------------
 *
 * json_depth.h
 *		How deep JSON nests.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_JSON_DEPTH_H
#define GPUCREDIT_EVAL_JSON_DEPTH_H

extern bool JsonIsTooDeep(const char *text, int len);

#endif							/* GPUCREDIT_EVAL_JSON_DEPTH_H */
