/*-------------------------------------------------------------------------
 *
 * provider.c
 *		Identity providers: their configuration, and the addresses and keys
 *		that they publish.
 *
 * The list of providers comes from the database and is read again after two
 * seconds. What a provider publishes is cached: its keys for ten minutes and,
 * if the provider does not answer then, for another hour. A token with an
 * unknown key causes the keys to be read again, but not twice within half a
 * minute, and by one thread only, so that sending such tokens does not
 * increase the number of requests. At most REFRESHES_MOST providers are read
 * at once, and one that fails is read less and less often, down to once in
 * half a minute.
 *
 * A signature is valid only by a key that the provider publishes for it, with
 * a public-key algorithm that fits the kind of key. So a token without a
 * signature is refused, and so is one whose signature uses a text as the
 * secret, such as a public key.
 *
 * A provider that is changed in the database becomes a new one here. Threads
 * that use the previous one continue with it, and the last of them frees it.
 *-------------------------------------------------------------------------
 */
#include "provider.h"

#include <cjose/cjose.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "database.h"
#include "fetch.h"
#include "log.h"
#include "options.h"

#define LIST_US			INT64_C(2000000)
#define LIST_RETRY_US	INT64_C(1000000)
#define KEYS_US			INT64_C(600000000)
#define KEYS_STALE_US	INT64_C(4200000000)
#define RETRY_US		INT64_C(30000000)
#define FIRST_RETRY_US	INT64_C(3000000)	/* pause after the first failure
											 * while nothing is cached */
#define KEYS_MOST		64
#define TOKEN_MOST		16384
#define RSA_BITS_LEAST	2048
#define EC_BITS_LEAST	256

typedef struct ProviderKey
{
	char	   *id;				/* NULL if it has none */
	char	   *algorithm;		/* the only algorithm of the key, or NULL for
								 * any that fits */
	cjose_jwk_t *key;
}			ProviderKey;

struct Provider
{
	struct Provider *next;
	int			uses;			/* number of users, under list_lock */
	char	   *columns[7];		/* columns of the database's row */
	pthread_mutex_t lock;		/* guards the following fields */
	bool		is_fetching;
	int64_t		tried_us;		/* when it was last read, successfully or not;
								 * 0 for never */
	int64_t		fetched_us;		/* when it was last read successfully; 0 for
								 * never */
	int			failures;		/* failures since then */
	ProviderAddresses addresses;
	int			nkeys;
	ProviderKey keys[KEYS_MOST];
};

enum
{
	NUMBER, ISSUER, NAME, CLIENT_ID, CLIENT_SECRET, SCOPES, IS_BEARER
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
/* held by the thread that reads the list */
static pthread_mutex_t read_lock = PTHREAD_MUTEX_INITIALIZER;
static Provider * providers = NULL;
static int64_t listed_us = 0;
static PGconn * list_connection = NULL;
static atomic_int refreshes = 0;	/* number of threads that read what
									 * providers publish */

static void
free_keys(Provider * provider)
{
	for (int i = 0; i < provider->nkeys; i++)
	{
		free(provider->keys[i].id);
		free(provider->keys[i].algorithm);
		cjose_jwk_release(provider->keys[i].key);
	}
	provider->nkeys = 0;
}

void
provider_addresses_free(ProviderAddresses * addresses)
{
	free(addresses->authorization);
	free(addresses->token);
	free(addresses->jwks);
	memset(addresses, 0, sizeof(*addresses));
}

static void
free_provider(Provider * provider)
{
	free_keys(provider);
	provider_addresses_free(&provider->addresses);
	for (int i = 0; i <= IS_BEARER; i++)
		free(provider->columns[i]);
	pthread_mutex_destroy(&provider->lock);
	free(provider);
}

static void
release_locked(Provider * provider)
{
	if (--provider->uses == 0)
		free_provider(provider);
}

void
provider_release(Provider * provider)
{
	pthread_mutex_lock(&list_lock);
	release_locked(provider);
	pthread_mutex_unlock(&list_lock);
}

/* Whether a provider is equal to a row of the database. */
static bool
is_same(const Provider * provider, const PGresult * rows, int row)
{
	for (int i = 0; i <= IS_BEARER; i++)
	{
		const char *value = PQgetisnull(rows, row, i) ? NULL : PQgetvalue(rows, row, i);

		if ((value == NULL) != (provider->columns[i] == NULL) ||
			(value != NULL && strcmp(value, provider->columns[i]) != 0))
			return false;
	}
	return true;
}

/*
 * Creates a provider from a row of the database. Returns NULL if memory runs
 * out.
 */
static Provider *
make_provider(const PGresult * rows, int row)
{
	Provider   *provider = calloc(1, sizeof(Provider));
	bool		good = provider != NULL;

	if (!good)
		return NULL;
	pthread_mutex_init(&provider->lock, NULL);
	provider->uses = 1;			/* the list itself is a user */
	for (int i = 0; i <= IS_BEARER; i++)
		if (!PQgetisnull(rows, row, i))
			good = (provider->columns[i] = strdup(PQgetvalue(rows, row, i))) != NULL && good;
	if (good)
		return provider;
	free_provider(provider);
	return NULL;
}

/*
 * Replaces the list by the database's rows. A provider that has not changed
 * stays.
 */
static void
set_list(const PGresult * rows)
{
	Provider   *list = NULL;

	pthread_mutex_lock(&list_lock);
	for (int i = PQntuples(rows) - 1; i >= 0; i--)
	{
		Provider  **link = &providers;
		Provider   *provider;

		while (*link != NULL && !is_same(*link, rows, i))
			link = &(*link)->next;
		provider = *link;
		if (provider != NULL)
			*link = provider->next;
		else if ((provider = make_provider(rows, i)) == NULL)
			continue;
		provider->next = list;
		list = provider;
	}
	while (providers != NULL)
	{
		Provider   *gone = providers;

		providers = gone->next;
		release_locked(gone);
	}
	providers = list;
	listed_us = now_us();
	pthread_mutex_unlock(&list_lock);
}

/*
 * Reads the list again if it is old. One thread reads it; other threads wait
 * only if there is no list yet.
 */
static void
read_list_if_old(void)
{
	int64_t		listed;
	PGresult   *rows;

	pthread_mutex_lock(&list_lock);
	listed = listed_us;
	pthread_mutex_unlock(&list_lock);
	if (listed != 0 && now_us() - listed < LIST_US)
		return;
	if (listed != 0 && pthread_mutex_trylock(&read_lock) != 0)
		return;
	if (listed == 0)
	{
		pthread_mutex_lock(&read_lock);
		pthread_mutex_lock(&list_lock);
		listed = listed_us;
		pthread_mutex_unlock(&list_lock);
		if (listed != 0)		/* another thread has read it in the
								 * meantime */
		{
			pthread_mutex_unlock(&read_lock);
			return;
		}
	}
	if (list_connection == NULL || PQstatus(list_connection) != CONNECTION_OK)
	{
		PQfinish(list_connection);
		list_connection = database_connect();
	}
	rows = list_connection == NULL ? NULL :
		PQexec(list_connection, "SELECT p.provider, p.issuer, p.name, p.client_id, p.client_secret,"
			   " p.scopes, p.is_bearer FROM gpucredit_http.providers_of_gateway() p");
	if (PQresultStatus(rows) == PGRES_TUPLES_OK)
		set_list(rows);
	else
	{
		if (rows != NULL)
			LogLine("identity: %s", PQresultErrorMessage(rows));
		pthread_mutex_lock(&list_lock);
		listed_us = now_us() - LIST_US + LIST_RETRY_US;
		pthread_mutex_unlock(&list_lock);
	}
	PQclear(rows);
	pthread_mutex_unlock(&read_lock);
}

/* Finds the provider whose column has this value, and counts one more user. */
static Provider *
find_provider(int column, const char *value)
{
	Provider   *provider;

	read_list_if_old();
	pthread_mutex_lock(&list_lock);
	for (provider = providers; provider != NULL; provider = provider->next)
		if (strcmp(provider->columns[column], value) == 0)
			break;
	if (provider != NULL)
		provider->uses++;
	pthread_mutex_unlock(&list_lock);
	return provider;
}

Provider *
provider_by_number(long long number)
{
	char		text[24];

	snprintf(text, sizeof(text), "%lld", number);
	return find_provider(NUMBER, text);
}

Provider *
provider_by_issuer(const char *issuer)
{
	return find_provider(ISSUER, issuer);
}

json_t *
providers_json(void)
{
	json_t	   *list = json_array();

	read_list_if_old();
	pthread_mutex_lock(&list_lock);
	for (const Provider * p = providers; p != NULL; p = p->next)
		if (p->columns[CLIENT_ID][0] != '\0')
			json_array_append_new(list, json_pack("{s:I, s:s}", "provider",
												  (json_int_t) atoll(p->columns[NUMBER]),
												  "name", p->columns[NAME]));
	pthread_mutex_unlock(&list_lock);
	return list;
}

long long
provider_number(const Provider * provider)
{
	return atoll(provider->columns[NUMBER]);
}

const char *
provider_issuer(const Provider * provider)
{
	return provider->columns[ISSUER];
}

const char *
provider_client_id(const Provider * provider)
{
	return provider->columns[CLIENT_ID];
}

const char *
provider_client_secret(const Provider * provider)
{
	return provider->columns[CLIENT_SECRET];
}

const char *
provider_scopes(const Provider * provider)
{
	return provider->columns[SCOPES];
}

bool
provider_is_bearer(const Provider * provider)
{
	return provider->columns[IS_BEARER][0] == 't';
}

/*
 * Copies an address from a provider's document. Returns NULL if it is not a
 * valid address.
 */
static char *
copy_address(const json_t * document, const char *name, bool may_be_plain)
{
	const char *text = json_string_value(json_object_get(document, name));

	if (text == NULL || strlen(text) > 2000 || strpbrk(text, " \t\r\n\"<>\\#") != NULL)
		return NULL;
	if (strncasecmp(text, "https://", 8) != 0 &&
		!(may_be_plain && strncasecmp(text, "http://", 7) == 0))
		return NULL;
	return strdup(text);
}

/*
 * Whether an array of a document contains a text. Returns true also if the
 * document has no such array.
 */
static bool
lists(const json_t * document, const char *name, const char *text)
{
	const		json_t *array = json_object_get(document, name);
	size_t		i;
	const		json_t *one;

	if (!json_is_array(array))
		return true;
	json_array_foreach(array, i, one)
		if (json_is_string(one) && strcmp(json_string_value(one), text) == 0)
		return true;
	return false;
}

/*
 * Reads a provider's configuration document. Returns false if it is not valid.
 */
static bool
fetch_addresses(const Provider * provider, ProviderAddresses * addresses)
{
	const char *issuer = provider_issuer(provider);
	size_t		length = strlen(issuer);
	char	   *url = NULL;
	Fetch		fetch = {0};
	json_t	   *document = NULL;
	bool		is_plain = strncasecmp(issuer, "http:", 5) == 0;
	const char *named;
	bool		good;

	if (asprintf(&url, "%.*s/.well-known/openid-configuration",
				 (int) (length - (issuer[length - 1] == '/')), issuer) < 0)
		return false;
	fetch.url = url;
	document = fetch_object(&fetch);
	named = json_string_value(json_object_get(document, "issuer"));
	good = fetch.status == 200 && named != NULL && strcmp(named, issuer) == 0;
	if (document != NULL && !good)
		LogLine("identity: \"%.200s\" is no document of that issuer", url);
	if (good)
	{
		addresses->authorization = copy_address(document, "authorization_endpoint", is_plain);
		addresses->token = copy_address(document, "token_endpoint", is_plain);
		addresses->jwks = copy_address(document, "jwks_uri", is_plain);
		addresses->posts_secret = !lists(document, "token_endpoint_auth_methods_supported",
										 "client_secret_basic");
		addresses->says_issuer =
			json_is_true(json_object_get(document, "authorization_response_iss_parameter_supported"));
		good = addresses->jwks != NULL;
		if (!good)
			LogLine("identity: \"%.200s\" has no address of keys", url);
	}
	json_decref(document);
	free(url);
	return good;
}

/* Adds a key of a provider's set, if signatures may be checked with it. */
static void
add_key(ProviderKey * keys, int *n, json_t * entry)
{
	const char *kind = json_string_value(json_object_get(entry, "kty"));
	const char *use = json_string_value(json_object_get(entry, "use"));
	const char *id = json_string_value(json_object_get(entry, "kid"));
	const char *algorithm = json_string_value(json_object_get(entry, "alg"));
	char	   *text;
	cjose_jwk_t *key;

	if (*n == KEYS_MOST || kind == NULL || (use != NULL && strcmp(use, "sig") != 0) ||
		(strcmp(kind, "RSA") != 0 && strcmp(kind, "EC") != 0))
		return;
	text = json_dumps(entry, JSON_COMPACT);
	key = text != NULL ? cjose_jwk_import(text, strlen(text), NULL) : NULL;
	free(text);
	if (key == NULL)
		return;					/* the library does not support this kind of
								 * key */
	if (cjose_jwk_get_keysize(key, NULL) <
		(size_t) (strcmp(kind, "RSA") == 0 ? RSA_BITS_LEAST : EC_BITS_LEAST))
	{
		cjose_jwk_release(key);
		return;
	}
	keys[*n] = (ProviderKey)
	{
		id != NULL ? strdup(id) : NULL, algorithm != NULL ? strdup(algorithm) : NULL, key
	};
	(*n)++;
}

/*
 * Returns how long a provider is not read again after an attempt. The caller
 * holds its lock.
 */
static int64_t
retry_pause(const Provider * provider)
{
	int64_t		pause = FIRST_RETRY_US;

	if (provider->fetched_us != 0)
		return RETRY_US;
	for (int i = 1; i < provider->failures && pause < RETRY_US; i++)
		pause *= 2;
	return pause < RETRY_US ? pause : RETRY_US;
}

/*
 * Reads again what a provider publishes, if that is due: it is old, or an
 * unknown key is wanted. One thread reads, without holding the lock. If too
 * many providers are being read, this one is read at the next request.
 */
static void
refresh(Provider * provider, bool is_wanted)
{
	ProviderAddresses addresses = {0};
	ProviderKey keys[KEYS_MOST];
	int			n = 0;
	Fetch		fetch = {0};
	json_t	   *set = NULL;
	json_t	   *entry;
	size_t		i;
	int64_t		now = now_us();
	bool		is_due;

	pthread_mutex_lock(&provider->lock);
	is_due = !provider->is_fetching &&
		(is_wanted || provider->fetched_us == 0 || now - provider->fetched_us > KEYS_US) &&
		(provider->tried_us == 0 || now - provider->tried_us > retry_pause(provider));
	if (is_due && atomic_fetch_add(&refreshes, 1) >= REFRESHES_MOST)
	{
		atomic_fetch_sub(&refreshes, 1);
		is_due = false;
	}
	if (is_due)
	{
		provider->is_fetching = true;
		provider->tried_us = now;
	}
	pthread_mutex_unlock(&provider->lock);
	if (!is_due)
		return;

	if (fetch_addresses(provider, &addresses))
	{
		fetch.url = addresses.jwks;
		set = fetch_object(&fetch);
		if (fetch.status == 200)
			json_array_foreach(json_object_get(set, "keys"), i, entry)
				add_key(keys, &n, entry);
		json_decref(set);
	}
	pthread_mutex_lock(&provider->lock);
	provider->is_fetching = false;
	provider->tried_us = now_us();
	provider->failures = n > 0 ? 0 : provider->failures + 1;
	if (n > 0)
	{
		free_keys(provider);
		provider_addresses_free(&provider->addresses);
		provider->addresses = addresses;
		memcpy(provider->keys, keys, (size_t) n * sizeof(ProviderKey));
		provider->nkeys = n;
		provider->fetched_us = now_us();
	}
	else
		provider_addresses_free(&addresses);
	pthread_mutex_unlock(&provider->lock);
	atomic_fetch_sub(&refreshes, 1);
}

/*
 * Whether what a provider published is recent enough to be used. The caller
 * holds its lock.
 */
static bool
is_known(const Provider * provider)
{
	return provider->fetched_us != 0 && now_us() - provider->fetched_us < KEYS_STALE_US;
}

bool
provider_addresses(Provider * provider, ProviderAddresses * addresses)
{
	bool		good;

	refresh(provider, false);
	memset(addresses, 0, sizeof(*addresses));
	pthread_mutex_lock(&provider->lock);
	good = is_known(provider) && provider->addresses.authorization != NULL &&
		provider->addresses.token != NULL;
	if (good)
	{
		*addresses = provider->addresses;
		addresses->authorization = strdup(provider->addresses.authorization);
		addresses->token = strdup(provider->addresses.token);
		addresses->jwks = NULL;
		good = addresses->authorization != NULL && addresses->token != NULL;
	}
	pthread_mutex_unlock(&provider->lock);
	if (!good)
		provider_addresses_free(addresses);
	return good;
}

/*
 * Decodes a part of a token, which is a JSON object in base64url. Returns NULL
 * if it is malformed.
 */
static json_t *
decode_part(const char *part, size_t size)
{
	uint8_t    *bytes = NULL;
	size_t		n = 0;
	json_t	   *object = NULL;

	if (size > 0 && cjose_base64url_decode(part, size, &bytes, &n, NULL))
		object = json_loadb((const char *) bytes, n, JSON_REJECT_DUPLICATES, NULL);
	free(bytes);
	if (json_is_object(object))
		return object;
	json_decref(object);
	return NULL;
}

/*
 * Decodes the header of a token (part 0) or its claims (part 1), without
 * verifying anything.
 */
static json_t *
read_part(const char *token, int part)
{
	const char *first = strchr(token, '.');
	const char *second = first != NULL ? strchr(first + 1, '.') : NULL;

	if (second == NULL || strchr(second + 1, '.') != NULL || strlen(token) > TOKEN_MOST)
		return NULL;
	return part == 0 ? decode_part(token, (size_t) (first - token)) :
		decode_part(first + 1, (size_t) (second - first - 1));
}

char *
token_issuer(const char *token)
{
	json_t	   *claims = read_part(token, 1);
	const char *issuer = json_string_value(json_object_get(claims, "iss"));
	char	   *copy = issuer != NULL ? strdup(issuer) : NULL;

	json_decref(claims);
	return copy;
}

/*
 * Returns the kind of key for an algorithm, or NULL if the algorithm is not
 * accepted.
 */
static const char *
kind_of(const char *algorithm)
{
	static const char *const table[][2] = {
		{"RS256", "RSA"}, {"RS384", "RSA"}, {"RS512", "RSA"}, {"PS256", "RSA"},
		{"PS384", "RSA"}, {"PS512", "RSA"}, {"ES256", "EC"}, {"ES384", "EC"}, {"ES512", "EC"}
	};

	for (size_t i = 0; algorithm != NULL && i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(algorithm, table[i][0]) == 0)
			return table[i][1];
	return NULL;
}

/* Whether the token's type is one that identifies a person. */
static bool
is_believed_type(const json_t * header)
{
	const char *type = json_string_value(json_object_get(header, "typ"));

	if (json_object_get(header, "typ") == NULL)
		return true;
	return type != NULL && (strcasecmp(type, "JWT") == 0 || strcasecmp(type, "at+jwt") == 0 ||
							strcasecmp(type, "application/at+jwt") == 0);
}

/*
 * Finds the only key that can have signed a token with this header. The caller
 * holds the lock.
 */
static const ProviderKey *
find_key(const Provider * provider, const char *id, const char *algorithm, const char *kind)
{
	const		ProviderKey *found = NULL;

	for (int i = 0; i < provider->nkeys; i++)
	{
		const		ProviderKey *key = &provider->keys[i];

		if (strcmp(cjose_jwk_name_for_kty(cjose_jwk_get_kty(key->key, NULL), NULL), kind) != 0 ||
			(key->algorithm != NULL && strcmp(key->algorithm, algorithm) != 0) ||
			(id != NULL && (key->id == NULL || strcmp(key->id, id) != 0)))
			continue;
		if (found != NULL)
			return NULL;
		found = key;
	}
	return found;
}

/* Returns the claims of a token if this key has signed it, otherwise NULL. */
static json_t *
verified_claims(const char *token, const ProviderKey * key)
{
	cjose_jws_t *jws = cjose_jws_import(token, strlen(token), NULL);
	json_t	   *claims = NULL;
	uint8_t    *bytes;
	size_t		size;

	if (jws != NULL && cjose_jws_verify(jws, key->key, NULL) &&
		cjose_jws_get_plaintext(jws, &bytes, &size, NULL))
		claims = json_loadb((const char *) bytes, size, JSON_REJECT_DUPLICATES, NULL);
	cjose_jws_release(jws);
	if (json_is_object(claims))
		return claims;
	json_decref(claims);
	return NULL;
}

TokenVerdict
provider_verify(Provider * provider, const char *token, json_t * *claims)
{
	json_t	   *header = read_part(token, 0);
	const char *algorithm = json_string_value(json_object_get(header, "alg"));
	const char *id = json_string_value(json_object_get(header, "kid"));
	const char *kind = kind_of(algorithm);
	TokenVerdict verdict = TOKEN_BAD;

	*claims = NULL;
	if (kind != NULL && is_believed_type(header) && json_object_get(header, "crit") == NULL &&
		(json_object_get(header, "kid") == NULL || id != NULL))
	{
		refresh(provider, false);
		for (int try = 0; try < 2; try++)
		{
			const		ProviderKey *key;

			pthread_mutex_lock(&provider->lock);
			key = is_known(provider) ? find_key(provider, id, algorithm, kind) : NULL;
			verdict = is_known(provider) ? TOKEN_BAD : TOKEN_UNKNOWN;
			if (key != NULL && (*claims = verified_claims(token, key)) != NULL)
				verdict = TOKEN_SIGNED;
			pthread_mutex_unlock(&provider->lock);
			if (key != NULL || verdict == TOKEN_UNKNOWN)
				break;
			if (try == 0)
				refresh(provider, true);
		}
	}
	json_decref(header);
	return verdict;
}
