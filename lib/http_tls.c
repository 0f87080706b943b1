/*-------------------------------------------------------------------------
 *
 * http_tls.c
 *		TLS for a daemon's HTTP clients, with a certificate that can be
 *		replaced while the daemon runs.
 *
 * Certificates live for some weeks, and a daemon that had to be restarted for
 * each new one would cut every stream. Therefore the library asks for the
 * certificate at each handshake, and gets a copy of what was read last. A
 * connection keeps the certificate that it began with.
 *-------------------------------------------------------------------------
 */
#include "http_tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "log.h"

/*
 * Older versions than TLS 1.2 are broken. Clients choose among the ciphers that
 * GnuTLS considers secure.
 */
#define PRIORITIES	"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* A certificate with those that sign it, and its private key. */
typedef struct Certificate
{
	gnutls_x509_crt_t *chain;
	unsigned int length;		/* number of certificates in the chain */
	gnutls_x509_privkey_t key;
	time_t		expires_at;
} Certificate;

static const char *certificate_file;
static const char *key_file;

/* Guards the certificate in use, which handshakes of many threads copy. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Certificate current;

static void
certificate_free(Certificate *certificate)
{
	for (unsigned int i = 0; i < certificate->length; i++)
		gnutls_x509_crt_deinit(certificate->chain[i]);
	gnutls_free(certificate->chain);
	if (certificate->key != NULL)
		gnutls_x509_privkey_deinit(certificate->key);
	memset(certificate, 0, sizeof(*certificate));
}

/*
 * Warns if others than the daemon's user and group can read the private key.
 * That is a mistake of whoever installed it, but no reason to serve nobody.
 */
static void
warn_of_readers(void)
{
	struct stat status;

	if (stat(key_file, &status) == 0 && (status.st_mode & S_IRWXO) != 0)
		LogLine("everybody on this machine can read the private key \"%s\"", key_file);
}

/*
 * Reads both files. GnuTLS checks that the key is that of the first
 * certificate. Returns a GnuTLS error code, or 0.
 */
static int
certificate_read(Certificate *certificate)
{
	gnutls_certificate_credentials_t read;
	int			rc = gnutls_certificate_allocate_credentials(&read);

	memset(certificate, 0, sizeof(*certificate));
	if (rc != 0)
		return rc;
	rc = gnutls_certificate_set_x509_key_file(read, certificate_file, key_file,
											  GNUTLS_X509_FMT_PEM);
	if (rc >= 0)
		rc = gnutls_certificate_get_x509_crt(read, 0, &certificate->chain,
											 &certificate->length);
	if (rc >= 0)
		rc = gnutls_certificate_get_x509_key(read, 0, &certificate->key);
	gnutls_certificate_free_credentials(read);
	if (rc < 0)
	{
		certificate_free(certificate);
		return rc;
	}
	certificate->expires_at = gnutls_x509_crt_get_expiration_time(certificate->chain[0]);
	return 0;
}

/*
 * Reads the files and uses what they contain for new connections. If they
 * cannot be used, logs why, keeps the previous certificate, and returns false.
 */
static bool
read_files(void)
{
	Certificate read;
	Certificate before;
	int			rc = certificate_read(&read);

	if (rc < 0)
	{
		LogLine("could not use the certificate \"%s\" with the private key \"%s\": %s",
				certificate_file, key_file, gnutls_strerror(rc));
		return false;
	}
	warn_of_readers();
	if (read.expires_at <= time(NULL))
		LogLine("the certificate \"%s\" has expired", certificate_file);
	pthread_mutex_lock(&lock);
	before = current;
	current = read;
	pthread_mutex_unlock(&lock);
	certificate_free(&before);
	return true;
}

bool
TlsStart(const char *certificate, const char *key)
{
	certificate_file = certificate;
	key_file = key;
	return read_files();
}

void
TlsWaitForSignal(const sigset_t *signals)
{
	int			which;

	while (sigwait(signals, &which) == 0 && which == SIGHUP)
	{
		if (!TlsIsOn())
			LogLine("was sent SIGHUP, and has no certificate to read again");
		else if (read_files())
			LogLine("uses the certificate \"%s\" from now on", certificate_file);
	}
}

bool
TlsIsOn(void)
{
	return certificate_file != NULL;
}

long long
TlsExpiresAt(void)
{
	long long	at;

	pthread_mutex_lock(&lock);
	at = (long long) current.expires_at;
	pthread_mutex_unlock(&lock);
	return at;
}

/* Copies the certificate in use. The caller holds the lock. */
static int
copy_current(gnutls_pcert_st * chain, gnutls_privkey_t key)
{
	unsigned int copied = 0;
	int			rc = 0;

	while (rc >= 0 && copied < current.length)
	{
		rc = gnutls_pcert_import_x509(&chain[copied], current.chain[copied], 0);
		if (rc >= 0)
			copied++;
	}
	if (rc >= 0)
		rc = gnutls_privkey_import_x509(key, current.key, GNUTLS_PRIVKEY_IMPORT_COPY);
	if (rc < 0)
		while (copied > 0)
			gnutls_pcert_deinit(&chain[--copied]);
	return rc;
}

/*
 * Called by GnuTLS at each handshake. Gives it a copy of the certificate in
 * use, which GnuTLS frees.
 */
static int
retrieve_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
					 gnutls_pcert_st * *chain, unsigned int *length,
					 gnutls_ocsp_data_st * *ocsp, unsigned int *ocsp_length,
					 gnutls_privkey_t * key, unsigned int *flags)
{
	int			rc = gnutls_privkey_init(key);

	(void) session;
	(void) info;
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&lock);
	*length = current.length;
	*chain = gnutls_calloc(current.length, sizeof(gnutls_pcert_st));
	rc = *chain != NULL ? copy_current(*chain, *key) : GNUTLS_E_MEMORY_ERROR;
	pthread_mutex_unlock(&lock);
	*ocsp = NULL;
	*ocsp_length = 0;
	*flags = GNUTLS_CERT_RETR_DEINIT_ALL;
	if (rc >= 0)
		return 0;
	gnutls_free(*chain);
	gnutls_privkey_deinit(*key);
	return rc;
}

struct MHD_OptionItem *
TlsOptions(void)
{
	static struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
	static struct MHD_OptionItem options[] = {
		{MHD_OPTION_HTTPS_PRIORITIES, 0, PRIORITIES},
		{MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, NULL},
		{MHD_OPTION_END, 0, NULL}
	};

	if (!TlsIsOn())
		return none;
	options[1].ptr_value = (void *) (uintptr_t) retrieve_certificate;
	return options;
}

unsigned int
TlsFlags(void)
{
	return TlsIsOn() ? MHD_USE_TLS : 0;
}
