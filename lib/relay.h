/*-------------------------------------------------------------------------
 *
 * relay.h
 *		The relay: where callers and agents meet.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_RELAY_H
#define LIB_RELAY_H

struct ssl_ctx_st;

extern struct ssl_ctx_st *RelayContext(const char *certificate,
									   const char *key, char digest[65]);
extern void RelayServe(int listener, struct ssl_ctx_st *context)
			__attribute__((noreturn));

#endif							/* LIB_RELAY_H */
