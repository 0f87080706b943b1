/*-------------------------------------------------------------------------
 *
 * options.c
 *		Parses the daemon's options.
 *-------------------------------------------------------------------------
 */
#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

WebOptions	options = {
	.database = "user=gpucredit_gateway", .address = "127.0.0.1", .port = 8086,
	.workers = 8, .waiting = 1000, .connections = 2000, .per_address = 100, .streams = 1000,
	.webhooks = 32, .webhook_s = 15,
	.receive_s = 30, .send_s = 300, .statement_s = 30, .body_max = 4 * 1024 * 1024
};

/* Prints the usage, to standard error if the options were wrong. */
void
options_usage(bool wrong)
{
	fputs("usage: gpucreditd [OPTION]...\n"
		  "answers gpucredit's HTTP interface, each request with the rights of the\n"
		  "database role that its token belongs to\n"
		  "  -d, --database=CONNINFO    libpq's (user=gpucredit_gateway)\n"
		  "  -a, --address=ADDRESS      to listen on (127.0.0.1)\n"
		  "  -p, --port=PORT            (8086)\n"
		  "  -w, --workers=N            requests at once, and connections to the\n"
		  "                             database (8)\n"
		  "  -q, --waiting=N            requests that may wait for a worker (1000)\n"
		  "  -c, --connections=N        of clients, at most (2000)\n"
		  "      --per-address=N        of those, from one address (100)\n"
		  "      --tls-certificate=FILE of this daemon, and of those that sign it, in PEM; with\n"
		  "                             it the daemon speaks TLS, and SIGHUP reads it again\n"
		  "      --tls-key=FILE         of the certificate's private key, in PEM\n"
		  "      --console=FOLDER       the console's files, served below /console/\n"
		  "      --streams=N            of events, open at once (1000); a quarter of them\n"
		  "                             of one role\n"
		  "      --webhooks=N           messages sent at once (32); 0: this daemon sends none\n"
		  "      --webhook-timeout=SECONDS  in which a receiver must have answered (15)\n"
		  "      --webhook-networks=ADDRESS/BITS,...  that are not public, and to which\n"
		  "                             webhooks may be sent all the same, also by http://\n"
		  "      --webhook-ca=FILE      of certificates that sign receivers' (the system's)\n"
		  "      --identity-networks=ADDRESS/BITS,...  that are not public, and where identity\n"
		  "                             providers may be all the same, also by http://\n"
		  "      --identity-ca=FILE     of certificates that sign providers' (the system's)\n"
		  "      --otlp-endpoint=URL    of a collector of OpenTelemetry that gets spans of jobs\n"
		  "                             submitted with a trace, at URL/v1/traces\n"
		  "      --otlp-headers=FILE    of headers for it, such as a key: NAME: VALUE lines\n"
		  "      --otlp-ca=FILE         of certificates that sign the collector's (the system's)\n"
		  "      --receive=SECONDS      in which a request must have come (30)\n"
		  "      --send=SECONDS         in which an answer must have been read (300)\n"
		  "      --statement=SECONDS    that a call to the database may last (30)\n"
		  "      --body-max=BYTES       of a request's body (4194304)\n",
		  wrong ? stderr : stdout);
}

/* Parses a whole number from 1 to "largest". Returns 0 for anything else. */
static int
parse_number(const char *text, int largest)
{
	char	   *end;
	long		number = strtol(text, &end, 10);

	return *text != '\0' && *end == '\0' && number >= 1 && number <= largest ? (int) number : 0;
}

enum
{
	PER_ADDRESS = 256,
	STREAMS,
	RECEIVE,
	SEND,
	STATEMENT,
	BODY_MAX,
	CONSOLE,
	WEBHOOKS,
	WEBHOOK_TIMEOUT,
	WEBHOOK_NETWORKS,
	WEBHOOK_CA,
	IDENTITY_NETWORKS,
	IDENTITY_CA,
	OTLP_ENDPOINT,
	OTLP_HEADERS,
	OTLP_CA,
	TLS_CERTIFICATE,
	TLS_KEY
};

/* Stores one option. Returns false if it is malformed. */
static bool
option_store(int option, const char *value)
{
	switch (option)
	{
		case 'd':
			options.database = value;
			return true;
		case 'a':
			options.address = value;
			return true;
		case 'p':
			return (options.port = parse_number(value, 65535)) > 0;
		case 'w':
			return (options.workers = parse_number(value, 1000)) > 0;
		case 'q':
			return (options.waiting = parse_number(value, 1000000)) > 0;
		case 'c':
			return (options.connections = parse_number(value, 100000)) > 0;
		case PER_ADDRESS:
			return (options.per_address = parse_number(value, 100000)) > 0;
		case STREAMS:
			return (options.streams = parse_number(value, 100000)) > 0;
		case RECEIVE:
			return (options.receive_s = parse_number(value, 3600)) > 0;
		case SEND:
			return (options.send_s = parse_number(value, 86400)) > 0;
		case STATEMENT:
			return (options.statement_s = parse_number(value, 3600)) > 0;
		case BODY_MAX:
			return (options.body_max = (size_t) parse_number(value, 256 * 1024 * 1024)) > 0;
		case WEBHOOKS:
			return (options.webhooks = parse_number(value, 1000)) > 0 || strcmp(value, "0") == 0;
		case WEBHOOK_TIMEOUT:
			return (options.webhook_s = parse_number(value, 300)) > 0;
		case WEBHOOK_NETWORKS:
			return networks_allow(&options.webhook_networks, value);
		case WEBHOOK_CA:
			options.webhook_ca = value;
			return true;
		case IDENTITY_NETWORKS:
			return networks_allow(&options.identity_networks, value);
		case IDENTITY_CA:
			options.identity_ca = value;
			return true;
		case OTLP_ENDPOINT:
			options.otlp_endpoint = value;
			return strncmp(value, "http://", 7) == 0 || strncmp(value, "https://", 8) == 0;
		case OTLP_HEADERS:
			options.otlp_headers = value;
			return true;
		case OTLP_CA:
			options.otlp_ca = value;
			return true;
		case TLS_CERTIFICATE:
			options.tls_certificate = value;
			return true;
		case TLS_KEY:
			options.tls_key = value;
			return true;
		case CONSOLE:
			options.console = value;
			return true;
		default:
			return false;
	}
}

/* Parses the command line. Returns false if it is malformed. */
bool
options_parse(int argc, char **argv)
{
	static const struct option longopts[] = {
		{"database", required_argument, NULL, 'd'},
		{"address", required_argument, NULL, 'a'},
		{"port", required_argument, NULL, 'p'},
		{"workers", required_argument, NULL, 'w'},
		{"waiting", required_argument, NULL, 'q'},
		{"connections", required_argument, NULL, 'c'},
		{"per-address", required_argument, NULL, PER_ADDRESS},
		{"streams", required_argument, NULL, STREAMS},
		{"receive", required_argument, NULL, RECEIVE},
		{"send", required_argument, NULL, SEND},
		{"statement", required_argument, NULL, STATEMENT},
		{"body-max", required_argument, NULL, BODY_MAX},
		{"console", required_argument, NULL, CONSOLE},
		{"webhooks", required_argument, NULL, WEBHOOKS},
		{"webhook-timeout", required_argument, NULL, WEBHOOK_TIMEOUT},
		{"webhook-networks", required_argument, NULL, WEBHOOK_NETWORKS},
		{"webhook-ca", required_argument, NULL, WEBHOOK_CA},
		{"identity-networks", required_argument, NULL, IDENTITY_NETWORKS},
		{"identity-ca", required_argument, NULL, IDENTITY_CA},
		{"otlp-endpoint", required_argument, NULL, OTLP_ENDPOINT},
		{"otlp-headers", required_argument, NULL, OTLP_HEADERS},
		{"otlp-ca", required_argument, NULL, OTLP_CA},
		{"tls-certificate", required_argument, NULL, TLS_CERTIFICATE},
		{"tls-key", required_argument, NULL, TLS_KEY},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "d:a:p:w:q:c:h", longopts, NULL)) != -1)
	{
		if (option == 'h')
		{
			options_usage(false);
			exit(0);
		}
		if (!option_store(option, optarg))
			return false;
	}
	return optind == argc &&
		(options.tls_certificate == NULL) == (options.tls_key == NULL);
}
