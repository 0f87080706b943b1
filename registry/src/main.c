/*-------------------------------------------------------------------------
 *
 * main.c
 *		registryd: the registry's daemon, HTTP on one side, the database and
 * the store of packs on the other.
 *
 * It knows no rules.  The database answers each request, with a plan of the
 * bytes to send or receive.  A thread serves a connection; threads share
 * connections to the database and open packs.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <string.h>

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
	int			which;

	if (!options_parse(argc, argv, &command))
	{
		usage(true);
		return 2;
	}
	if (!store_open())
		return 1;
	if (strcmp(command, "verify") == 0)
		return upkeep_verify() == 0 ? 0 : 1;
	if (strcmp(command, "upkeep") == 0)
		return upkeep_round(true) ? 0 : 1;

	/* threads inherit the mask, so only this one gets the signals */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	daemon = serve();
	if (daemon == NULL)
	{
		log_message("could not listen on %s:%d", options.address, options.port);
		return 1;
	}
	upkeep_start();
	log_message("listens on %s:%d", options.address, options.port);
	sigwait(&signals, &which);
	MHD_stop_daemon(daemon);
	return 0;
}
