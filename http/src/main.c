/*-------------------------------------------------------------------------
 *
 * main.c
 *		gpucreditd: the daemon of gpucredit's HTTP interface.
 *
 * It knows no rules.  A token says which database role a request acts as, and
 * the database answers it with that role's rights.  Several daemons may run
 * side by side: none keeps anything.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <signal.h>

#include "client.h"
#include "console.h"
#include "follow.h"
#include "options.h"
#include "serve.h"
#include "webhook.h"
#include "worker.h"

int
main(int argc, char **argv)
{
	struct MHD_Daemon *daemon;
	sigset_t	signals;
	int			which;

	if (!options_parse(argc, argv))
	{
		options_usage(true);
		return 2;
	}

	if (options.console != NULL && !console_load(options.console))
	{
		log_line("\"%s\" has no index.html; make -C http console makes it", options.console);
		return 1;
	}

	/* threads inherit the mask, so only this one gets the signals */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!workers_start() || !clients_start() || !follow_start() ||
		!webhooks_start())
	{
		log_line("could not start threads");
		return 1;
	}
	daemon = serve_start();
	if (daemon == NULL)
	{
		log_line("could not listen on %s:%d", options.address, options.port);
		return 1;
	}
	log_line("listens on %s:%d", options.address, options.port);
	sigwait(&signals, &which);
	webhooks_stop();
	serve_stop(daemon);
	clients_stop();
	return 0;
}
