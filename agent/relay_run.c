/*-------------------------------------------------------------------------
 *
 * relay_run.c
 *		gpucredit-agent relay: runs the relay of terminals (lib/relay.c).
 *
 *     gpucredit-agent relay ADDRESS:PORT CERTIFICATE [KEY]
 *
 * CERTIFICATE is a PEM file, which may have the key as well. If the file does
 * not exist, the program creates it with a key of its own, so that a relay
 * needs no authority: clients recognize it by its digest.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"
#include "relay.h"
#include "relay_run.h"

#define VALID_S		(10L * 365 * 24 * 3600)

static int	listen_at(const char *address);
static void make_certificate(const char *path);
static bool write_certificate(FILE *file);

void
RelayRun(int argc, char **argv)
{
	struct rlimit files;
	SSL_CTX    *context;
	char		digest[65];
	int			listener;

	if (argc < 2 || argc > 3)
		Die("usage: gpucredit-agent relay ADDRESS:PORT CERTIFICATE [KEY]");
	signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
	{
		files.rlim_cur = files.rlim_max;
		(void) setrlimit(RLIMIT_NOFILE, &files);
	}
	if (argc == 2 && access(argv[1], F_OK) != 0 && errno == ENOENT)
		make_certificate(argv[1]);
	context = RelayContext(argv[1], argv[argc - 1], digest);
	if (context == NULL)
		Die("could not use the certificate in %s and its key: %s", argv[1],
			ERR_reason_error_string(ERR_get_error()));
	listener = listen_at(argv[0]);
	LogLine("event=relay_start address=%s digest=%s", argv[0], digest);
	RelayServe(listener, context);
}

/* Listens at "ADDRESS:PORT". */
static int
listen_at(const char *address)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	char	   *host = Dup(address);
	char	   *port = strrchr(host, ':');
	const int	on = 1;
	int			fd;

	if (port == NULL)
		Die("the address is ADDRESS:PORT, not \"%s\"", address);
	*port++ = '\0';
	if (*host == '[' && port[-2] == ']')
	{
		port[-2] = '\0';
		memmove(host, host + 1, strlen(host));
	}
	if (getaddrinfo(*host == '\0' ? NULL : host, port, &hints, &found) != 0)
		Die("could not find the address %s", address);
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(fd, found->ai_addr, found->ai_addrlen) != 0 ||
		listen(fd, 256) != 0)
		Die("could not listen at %s: %s", address, strerror(errno));
	freeaddrinfo(found);
	free(host);
	return fd;
}

/*
 * Creates a key and a certificate that it has signed itself, in a file that
 * nobody else can read. The file appears only once it is complete.
 */
static void
make_certificate(const char *path)
{
	char	   *unfinished = Format("%s.new", path);
	int			fd;
	FILE	   *file;

	(void) unlink(unfinished);
	fd = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (file == NULL)
		Die("could not write %s: %s", unfinished, strerror(errno));
	if (!write_certificate(file) || fflush(file) != 0 || fsync(fd) != 0 ||
		fclose(file) != 0 || rename(unfinished, path) != 0)
		Die("could not write the certificate %s: %s", path, strerror(errno));
	free(unfinished);
}

/* Writes a new key, and a certificate for it. */
static bool
write_certificate(FILE *file)
{
	EVP_PKEY   *key = EVP_EC_gen("P-256");
	X509	   *certificate = X509_new();
	X509_NAME  *name = certificate == NULL ? NULL :
		X509_get_subject_name(certificate);

	return key != NULL && name != NULL &&
		X509_set_version(certificate, X509_VERSION_3) == 1 &&
		ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
		X509_gmtime_adj(X509_getm_notBefore(certificate), 0) != NULL &&
		X509_gmtime_adj(X509_getm_notAfter(certificate), VALID_S) != NULL &&
		X509_set_pubkey(certificate, key) == 1 &&
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
								   (const unsigned char *) "gpucredit relay",
								   -1, -1, 0) == 1 &&
		X509_set_issuer_name(certificate, name) == 1 &&
		X509_sign(certificate, key, EVP_sha256()) > 0 &&
		PEM_write_X509(file, certificate) == 1 &&
		PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1;
}
