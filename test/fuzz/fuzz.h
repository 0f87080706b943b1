/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *		What the fuzz targets share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_FUZZ_H
#define GPUCREDIT_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A property that must hold; a crash is what libFuzzer reports and keeps. */
#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: %s does not hold\n", \
					__FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif							/* GPUCREDIT_FUZZ_H */
