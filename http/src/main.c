/*-------------------------------------------------------------------------
 *
 * main.c
 *		gpucreditd: the daemon of gpucredit's HTTP interface.
 *
 * The daemon contains no rules of the ledger. A token determines the database
 * role that a request acts as, and the database answers the request with that
 * role's rights. Several daemons may run side by side, as none stores state.
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <signal.h>

#include "console.h"
#include "fetch.h"
#include "follow.h"
#include "http_client.h"
#include "http_tls.h"
#include "identity.h"
#include "log.h"
#include "options.h"
#include "serve.h"
#include "span.h"
#include "webhook.h"
#include "worker.h"

int
main(int argc, char **argv)
{
	struct MHD_Daemon *daemon;
	sigset_t	signals;

	LogProgram("gpucreditd");
	if (!options_parse(argc, argv))
	{
		options_usage(true);
		return 2;
	}

	if (options.console != NULL && !console_load(options.console))
	{
		LogLine("\"%s\" has no index.html; make -C http console makes it", options.console);
		return 1;
	}

	if (options.tls_certificate != NULL &&
		!TlsStart(options.tls_certificate, options.tls_key))
		return 1;

	/*
	 * Threads inherit the mask, so only the main thread receives the signals.
	 */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!fetch_init() || !workers_start() || !identity_start() ||
		!ClientsStart(options.receive_s, options.send_s) || !follow_start() ||
		!webhooks_start() || !spans_start())
	{
		LogLine("could not start threads");
		return 1;
	}
	daemon = serve_start();
	if (daemon == NULL)
	{
		LogLine("could not listen on %s:%d", options.address, options.port);
		return 1;
	}
	LogLine("listens on %s:%d", options.address, options.port);
	TlsWaitForSignal(&signals);
	spans_stop();
	webhooks_stop();
	serve_stop(daemon);
	ClientsStop();
	return 0;
}
