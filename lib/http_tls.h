/*-------------------------------------------------------------------------
 *
 * http_tls.h
 *		TLS for a daemon's HTTP clients, with a certificate that can be
 *		replaced while the daemon runs.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HTTP_TLS_H
#define GPUCREDIT_HTTP_TLS_H

#include <microhttpd.h>
#include <signal.h>
#include <stdbool.h>

/*
 * Names the files of the certificate, followed by those that sign it, and of
 * its private key, both in PEM, and reads them. The names must stay valid.
 * Returns false, with a line in the log, if the files cannot be used.
 */
extern bool TlsStart(const char *certificate_file, const char *key_file);

/*
 * Waits for one of the signals, which are blocked. SIGHUP, which programs that
 * renew certificates send, has the files read again: new connections use what
 * they contain then, and if they cannot be used, the log says why and the
 * previous certificate stays in use. Any other signal ends the waiting.
 */
extern void TlsWaitForSignal(const sigset_t *signals);

/* Whether TlsStart() has read a certificate. */
extern bool TlsIsOn(void);

/*
 * Returns the time when the certificate in use expires, in seconds since 1970,
 * or 0 without TLS.
 */
extern long long TlsExpiresAt(void);

/*
 * The options of MHD_start_daemon() that make its connections use TLS, ended
 * by MHD_OPTION_END; without TLS there are none. Pass them as MHD_OPTION_ARRAY,
 * and add TlsFlags() to the daemon's flags.
 */
extern struct MHD_OptionItem *TlsOptions(void);
extern unsigned int TlsFlags(void);

#endif							/* GPUCREDIT_HTTP_TLS_H */
