/*-------------------------------------------------------------------------
 *
 * memcheck.h
 *		What PostgreSQL tells valgrind, told to AddressSanitizer.
 *
 * A server compiled with USE_VALGRIND says which bytes of a memory context
 * somebody may touch, and that nobody may touch a shared buffer that is not
 * pinned.  Without this, a block of a memory context is one piece for
 * AddressSanitizer, which misses a write past a chunk's end or a read of a
 * freed chunk.  This header stands where the server's sources look
 * for valgrind's (tools/lib/sanitized.sh).
 *
 * AddressSanitizer knows what may be touched, not what has been written, so
 * "undefined" is "defined" here.  Who frees a chunk has it wiped first, which
 * says that it is gone, so the requests that name a pool have nothing to add.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_MEMCHECK_H
#define GPUCREDIT_MEMCHECK_H

#include <sanitizer/asan_interface.h>

#define VALGRIND_MAKE_MEM_NOACCESS(addr, size) \
	ASAN_POISON_MEMORY_REGION((addr), (size))
#define VALGRIND_MAKE_MEM_DEFINED(addr, size) \
	ASAN_UNPOISON_MEMORY_REGION((addr), (size))
#define VALGRIND_MAKE_MEM_UNDEFINED(addr, size) \
	ASAN_UNPOISON_MEMORY_REGION((addr), (size))
#define VALGRIND_MEMPOOL_ALLOC(pool, addr, size) \
	ASAN_UNPOISON_MEMORY_REGION((addr), (size))
#define VALGRIND_MEMPOOL_CHANGE(pool, from, to, size) \
	ASAN_UNPOISON_MEMORY_REGION((to), (size))

#define VALGRIND_CREATE_MEMPOOL(pool, redzone, zeroed)	((void) 0)
#define VALGRIND_DESTROY_MEMPOOL(pool)			((void) 0)
#define VALGRIND_MEMPOOL_FREE(pool, addr)		((void) 0)
#define VALGRIND_CHECK_MEM_IS_DEFINED(addr, size)	((void) 0)

#endif							/* GPUCREDIT_MEMCHECK_H */
