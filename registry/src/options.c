/*-------------------------------------------------------------------------
 *
 * options.c
 *		Parses the daemon's options.
 *-------------------------------------------------------------------------
 */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy.h"

Options		options = {
	.database = "", .store = "store", .s3_endpoint = "", .address = "127.0.0.1", .port = 8085,
	.connections = 16, .grace = "24 hours", .idle = 30, .per_address = 128
};

/* Prints the usage to standard error. */
void
usage(bool wrong)
{
	fputs("usage: registryd [serve | upkeep | verify] [OPTION]...\n"
		  "serve (the default) answers Hugging Face clients, git-lfs and skopeo;\n"
		  "upkeep does one round of what serve does every hour;\n"
		  "verify reads every stored chunk, and exits 1 if one is damaged\n"
		  "  -d, --database=CONNINFO  libpq's, of a gpucredit_registry_daemon\n"
		  "  -s, --store=FOLDER       where packs are kept (store), or\n"
		  "      --store=s3://BUCKET[/PREFIX]; keys are in AWS_ACCESS_KEY_ID\n"
		  "      and AWS_SECRET_ACCESS_KEY, and may need AWS_SESSION_TOKEN\n"
		  "      and AWS_REGION (us-east-1)\n"
		  "  -e, --s3-endpoint=URL    the service of the bucket\n"
		  "      --s3-encryption=AES256 or aws:kms[,KEY]\n"
		  "                           how the service encrypts packs (as the bucket says)\n"
		  "  -a, --address=ADDRESS    to listen on (127.0.0.1)\n"
		  "  -p, --port=PORT          (8085)\n"
		  "  -c, --connections=N      to the database, at most (16)\n"
		  "  -g, --grace=INTERVAL     how long unused packs stay (24 hours)\n"
		  "  -i, --idle=SECONDS       until a silent or slow client is cut off (30)\n"
		  "  -n, --per-address=N      connections of one address, at most (128)\n"
		  "  -x, --proxy-secret=FILE  what the proxy with a cache proves itself by\n"
		  "      --tls-certificate=FILE   of this daemon, and of those that sign it, in PEM;\n"
		  "      with it the daemon speaks TLS, and SIGHUP reads it again\n"
		  "      --tls-key=FILE       of the certificate's private key, in PEM\n",
		  wrong ? stderr : stdout);
}

enum
{
	TLS_CERTIFICATE = 256,
	TLS_KEY,
	S3_ENCRYPTION
};

/* Parses the options and the command. Returns false if they are malformed. */
bool
options_parse(int argc, char **argv, const char **command)
{
	static const struct option longopts[] = {
		{"database", required_argument, NULL, 'd'},
		{"store", required_argument, NULL, 's'},
		{"s3-endpoint", required_argument, NULL, 'e'},
		{"s3-encryption", required_argument, NULL, S3_ENCRYPTION},
		{"address", required_argument, NULL, 'a'},
		{"port", required_argument, NULL, 'p'},
		{"connections", required_argument, NULL, 'c'},
		{"grace", required_argument, NULL, 'g'},
		{"idle", required_argument, NULL, 'i'},
		{"per-address", required_argument, NULL, 'n'},
		{"proxy-secret", required_argument, NULL, 'x'},
		{"tls-certificate", required_argument, NULL, TLS_CERTIFICATE},
		{"tls-key", required_argument, NULL, TLS_KEY},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}
	};
	int			c;

	while ((c = getopt_long(argc, argv, "d:s:e:a:p:c:g:i:n:x:h", longopts, NULL)) != -1)
	{
		switch (c)
		{
			case 'd':
				options.database = optarg;
				break;
			case 's':
				options.store = optarg;
				break;
			case 'e':
				options.s3_endpoint = optarg;
				break;
			case S3_ENCRYPTION:
				options.s3_encryption = optarg;
				break;
			case 'a':
				options.address = optarg;
				break;
			case 'p':
				options.port = atoi(optarg);
				break;
			case 'c':
				options.connections = atoi(optarg);
				break;
			case 'g':
				options.grace = optarg;
				break;
			case 'i':
				options.idle = atoi(optarg);
				break;
			case 'n':
				options.per_address = atoi(optarg);
				break;
			case TLS_CERTIFICATE:
				options.tls_certificate = optarg;
				break;
			case TLS_KEY:
				options.tls_key = optarg;
				break;
			case 'x':
				if (!proxy_load_secret(optarg))
				{
					fprintf(stderr, "registryd: the first line of \"%s\" is no"
							" secret of 16 to 254 characters\n", optarg);
					return false;
				}
				break;
			case 'h':
				usage(false);
				exit(0);
			default:
				return false;
		}
	}
	*command = optind < argc ? argv[optind++] : "serve";
	return optind == argc && options.connections > 0 && options.port > 0 &&
		options.idle > 0 && options.per_address > 0 &&
		(options.tls_certificate == NULL) == (options.tls_key == NULL) &&
		(options.s3_encryption == NULL || strncmp(options.store, "s3://", 5) == 0) &&
		(strcmp(*command, "serve") == 0 || strcmp(*command, "upkeep") == 0 ||
		 strcmp(*command, "verify") == 0);
}
