/*-------------------------------------------------------------------------
 *
 * gear.h
 *		The table of the rolling hash by which content is cut into chunks.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_GEAR_H
#define REGISTRYD_GEAR_H

#include <stdint.h>

extern const uint64_t gear[256];

#endif							/* REGISTRYD_GEAR_H */
