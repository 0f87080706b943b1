/*-------------------------------------------------------------------------
 *
 * main.c
 *		registryd: the registry's daemon, which connects HTTP clients with the
 *		database and the store of packs.
 *
 * The daemon contains no rules of the registry. The database answers each
 * request, with a plan of the bytes to send or receive. Each connection of a
 * client has a thread; the threads share connections to the database, and
 * packs that are open for writing.
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <string.h>

#include "http_client.h"
#include "http_tls.h"
#include "log.h"
#include "options.h"
#include "serve.h"
#include "store.h"
#include "upkeep.h"

int
main(int argc, char **argv)
{
	const char *command;
	struct MHD_Daemon *daemon;
	sigset_t	signals;

	LogProgram("registryd");
	if (!options_parse(argc, argv, &command))
	{
		usage(true);
		return 2;
	}
	if (options.tls_certificate != NULL &&
		!TlsStart(options.tls_certificate, options.tls_key))
		return 1;
	if (!store_open())
		return 1;
	if (strcmp(command, "verify") == 0)
		return upkeep_verify() == 0 ? 0 : 1;
	if (strcmp(command, "upkeep") == 0)
		return upkeep_round(true) ? 0 : 1;

	/*
	 * Threads inherit the mask, so only the main thread receives the signals.
	 */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	daemon = serve();
	if (daemon == NULL)
	{
		LogLine("could not listen on %s:%d", options.address, options.port);
		return 1;
	}
	if (!ClientsStart(options.idle, 0))
	{
		LogLine("could not start a thread");
		MHD_stop_daemon(daemon);
		return 1;
	}
	upkeep_start();
	LogLine("listens on %s:%d", options.address, options.port);
	TlsWaitForSignal(&signals);
	MHD_stop_daemon(daemon);
	ClientsStop();
	return 0;
}
