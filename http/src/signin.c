/*-------------------------------------------------------------------------
 *
 * signin.c
 *		Signs people in with an identity provider (OpenID Connect).
 *
 *     GET /v1/sign_in             lists the providers
 *     GET /v1/sign_in/N           redirects the browser to provider N
 *     GET /v1/sign_in/N/callback  the provider redirects the browser here,
 *                                 with a code
 *
 * It uses the authorization code flow with PKCE. What the browser must bring
 * back is stored in a cookie that is valid for ten minutes: the provider, the
 * state, the nonce, the verifier and the page to redirect to. So no daemon
 * stores state, and a request that another site makes a browser send is
 * refused, because that site cannot set the cookie. A code arrives with the
 * cookie's state, is redeemed at the cookie's provider, and yields a token
 * with the cookie's nonce; each provider has its own callback, and a provider
 * that adds its issuer must be that one. So nobody is signed in as somebody
 * else, and no provider receives another's code. The page to redirect to must
 * be a page of the console.
 *-------------------------------------------------------------------------
 */
#include "signin.h"

#include <cjose/cjose.h>
#include <curl/curl.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fetch.h"
#include "log.h"
#include "options.h"
#include "problem.h"
#include "provider.h"

#define PREFIX		"/v1/sign_in"
#define HOME		"/console/"
#define SECRET_SIZE 43			/* length of 32 bytes in base64url */
#define PAGE_MOST	500
#define COOKIE_S	600

typedef struct SignInCookie
{
	long long	provider;
	char		state[SECRET_SIZE + 1];
	char		nonce[SECRET_SIZE + 1];
	char		verifier[SECRET_SIZE + 1];
	char		page[PAGE_MOST + 1];
}			SignInCookie;

void
signin_find(WebRequest * request)
{
	size_t		length = strcspn(request->target, "?");
	const char *rest = request->target + strlen(PREFIX);
	char	   *end;

	if (length < strlen(PREFIX) || strncmp(request->target, PREFIX, strlen(PREFIX)) != 0 ||
		strcmp(request->method, "GET") != 0)
		return;
	length -= strlen(PREFIX);
	if (length == 0)
		request->sign_in.step = SIGN_IN_LIST;
	else if (length < 24 && rest[0] == '/' && rest[1] >= '1' && rest[1] <= '9')
	{
		request->sign_in.provider = strtoll(rest + 1, &end, 10);
		if (end == rest + length)
			request->sign_in.step = SIGN_IN_BEGIN;
		else if (rest + length - end == 9 && strncmp(end, "/callback", 9) == 0)
			request->sign_in.step = SIGN_IN_CALLBACK;
	}
}

static const char *
cookie_name(const WebRequest * request)
{
	return request->is_secure ? "__Host-gpucredit_sign_in" : "gpucredit_sign_in";
}

/* Generates 32 random bytes, in base64url. */
static bool
draw_secret(char *secret)
{
	uint8_t		bytes[32];
	char	   *text = NULL;
	size_t		size = 0;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes) ||
		!cjose_base64url_encode(bytes, sizeof(bytes), &text, &size, NULL))
		return false;
	if (size == SECRET_SIZE)
	{
		memcpy(secret, text, SECRET_SIZE);
		secret[SECRET_SIZE] = '\0';
	}
	free(text);
	return size == SECRET_SIZE;
}

/*
 * Whether a page is one of the console, written so that no browser can
 * interpret it as another address.
 */
static bool
is_page(const char *page)
{
	size_t		length = strlen(page);

	return length <= PAGE_MOST && strncmp(page, HOME, strlen(HOME)) == 0 &&
		strspn(page, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
			   "/-_.~%?=&+:@!*'()") == length && strstr(page, "//") == NULL &&
		strstr(page, "/..") == NULL;
}

/*
 * Parses a secret of the cookie and the separator that follows it. Returns
 * NULL if it is malformed.
 */
static const char *
read_secret(const char *text, char *secret)
{
	if (text == NULL || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
							   "0123456789-_") != SECRET_SIZE || text[SECRET_SIZE] != '.')
		return NULL;
	memcpy(secret, text, SECRET_SIZE);
	secret[SECRET_SIZE] = '\0';
	return text + SECRET_SIZE + 1;
}

/*
 * Parses the cookie of a request. Returns false if there is none that this
 * file has made.
 */
static bool
read_cookie(const WebRequest * request, SignInCookie * cookie)
{
	const char *text = MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND,
												   cookie_name(request));
	char	   *end;
	uint8_t    *page = NULL;
	size_t		size = 0;
	bool		good;

	memset(cookie, 0, sizeof(*cookie));
	if (text == NULL || text[0] < '1' || text[0] > '9')
		return false;
	cookie->provider = strtoll(text, &end, 10);
	text = *end == '.' ? read_secret(end + 1, cookie->state) : NULL;
	text = read_secret(text, cookie->nonce);
	text = read_secret(text, cookie->verifier);
	if (text == NULL || strlen(text) > 2 * PAGE_MOST ||
		!cjose_base64url_decode(text, strlen(text), &page, &size, NULL))
		return false;
	good = size <= PAGE_MOST && memchr(page, '\0', size) == NULL;
	if (good)
		memcpy(cookie->page, page, size);
	free(page);
	return good && is_page(cookie->page);
}

/* Sets the cookie or, without a value, removes it. */
static void
add_cookie(WebRequest * request, const char *value)
{
	char	   *header = NULL;

	if (asprintf(&header, "%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%d%s",
				 cookie_name(request), value, *value != '\0' ? COOKIE_S : 0,
				 request->is_secure ? "; Secure" : "") < 0)
		return;
	MHD_add_response_header(request->response, "Set-Cookie", header);
	free(header);
}

static void
answer_redirect(WebRequest * request, const char *location)
{
	request->status = 303;
	request->response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	MHD_add_response_header(request->response, "Location", location);
	MHD_add_response_header(request->response, "Cache-Control", "no-store");
	MHD_add_response_header(request->response, "Referrer-Policy", "no-referrer");
}

/*
 * Answers a sign-in that failed, by a redirect to the console's page with a
 * code for the reason. The console has the text for each code, so no link can
 * make it display other text.
 */
static void
answer_failure(WebRequest * request, const char *why)
{
	char		location[64];

	snprintf(location, sizeof(location), HOME "?sign_in=%s", why);
	answer_redirect(request, location);
	add_cookie(request, "");
}

/* Returns the address to which the provider redirects the browser. */
static char *
callback_address(const WebRequest * request, long long provider)
{
	const char *host = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Host");
	char	   *address = NULL;

	if (host == NULL || asprintf(&address, "%s://%s" PREFIX "/%lld/callback",
								 request->is_secure ? "https" : "http", host, provider) < 0)
		return NULL;
	return address;
}

/* Appends NAME=VALUE to a form or query, escaped. */
static void
add_field(char **form, const char *name, const char *value)
{
	char	   *escaped = curl_easy_escape(NULL, value, 0);
	char	   *more = NULL;

	if (*form != NULL && escaped != NULL &&
		asprintf(&more, "%s%s%s=%s", *form, **form != '\0' ? "&" : "", name, escaped) < 0)
		more = NULL;
	curl_free(escaped);
	free(*form);
	*form = more;
}

/*
 * Returns the value of the cookie, which the caller frees, or NULL if memory
 * runs out.
 */
static char *
cookie_value(const SignInCookie * cookie)
{
	char	   *page = NULL;
	char	   *value = NULL;
	size_t		size;

	if (!cjose_base64url_encode((const uint8_t *) cookie->page, strlen(cookie->page), &page, &size, NULL))
		return NULL;
	if (asprintf(&value, "%lld.%s.%s.%s.%.*s", cookie->provider, cookie->state, cookie->nonce,
				 cookie->verifier, (int) size, page) < 0)
		value = NULL;
	free(page);
	return value;
}

/* Redirects the browser to a provider. */
static void
begin(WebRequest * request, Provider * provider)
{
	const char *page = MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND,
												   "return");
	SignInCookie cookie = {.provider = provider_number(provider)};
	ProviderAddresses addresses;
	uint8_t		digest[SHA256_DIGEST_LENGTH];
	char	   *challenge = NULL;
	size_t		size;
	char	   *query = strdup("response_type=code&code_challenge_method=S256");
	char	   *redirect = callback_address(request, cookie.provider);
	char	   *location = NULL;
	char	   *value = NULL;

	snprintf(cookie.page, sizeof(cookie.page), "%s", page != NULL && is_page(page) ? page : HOME);
	if (!provider_addresses(provider, &addresses))
		answer_failure(request, "provider");
	else if (redirect == NULL || !draw_secret(cookie.state) || !draw_secret(cookie.nonce) ||
			 !draw_secret(cookie.verifier) || (value = cookie_value(&cookie)) == NULL ||
			 SHA256((const unsigned char *) cookie.verifier, SECRET_SIZE, digest) == NULL ||
			 !cjose_base64url_encode(digest, sizeof(digest), &challenge, &size, NULL))
		problem_answer(request, 500, "internal error", NULL, NULL);
	else
	{
		add_field(&query, "client_id", provider_client_id(provider));
		add_field(&query, "redirect_uri", redirect);
		add_field(&query, "scope", provider_scopes(provider));
		add_field(&query, "state", cookie.state);
		add_field(&query, "nonce", cookie.nonce);
		add_field(&query, "code_challenge", challenge);
		if (query != NULL && asprintf(&location, "%s%c%s", addresses.authorization,
									  strchr(addresses.authorization, '?') != NULL ? '&' : '?',
									  query) >= 0)
		{
			answer_redirect(request, location);
			add_cookie(request, value);
		}
		else
			problem_answer(request, 500, "internal error", NULL, NULL);
	}
	provider_addresses_free(&addresses);
	free(challenge);
	free(location);
	free(redirect);
	free(query);
	free(value);
}

/*
 * Compares two secrets in a time that does not depend on how much of them is
 * equal.
 */
static bool
is_equal_secret(const char *a, const char *b)
{
	int			difference = 0;

	if (strlen(a) != SECRET_SIZE || strlen(b) != SECRET_SIZE)
		return false;
	for (int i = 0; i < SECRET_SIZE; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

/*
 * Redeems a code at the provider. Returns the ID token, which the caller
 * frees, or NULL.
 */
static char *
redeem_code(const WebRequest * request, Provider * provider, const ProviderAddresses * addresses,
			const SignInCookie * cookie, const char *code)
{
	const char *client = provider_client_id(provider);
	const char *secret = provider_client_secret(provider);
	char	   *redirect = callback_address(request, cookie->provider);
	char	   *form = strdup("grant_type=authorization_code");
	char	   *user = secret != NULL && !addresses->posts_secret ? curl_easy_escape(NULL, client, 0) : NULL;
	char	   *password = user != NULL ? curl_easy_escape(NULL, secret, 0) : NULL;
	Fetch		fetch = {.url = addresses->token, .user = user, .password = password};
	char	   *token = NULL;
	json_t	   *answer;

	add_field(&form, "code", code);
	add_field(&form, "redirect_uri", redirect != NULL ? redirect : "");
	add_field(&form, "code_verifier", cookie->verifier);
	if (user == NULL)
		add_field(&form, "client_id", client);
	if (user == NULL && secret != NULL)
		add_field(&form, "client_secret", secret);
	fetch.form = form;
	if (form != NULL)
	{
		const char *text;

		answer = fetch_object(&fetch);
		text = json_string_value(json_object_get(answer, "id_token"));
		if (fetch.status == 200 && text != NULL)
			token = strdup(text);
		else if (answer != NULL)
		{
			const char *error = json_string_value(json_object_get(answer, "error"));

			LogLine("identity: provider %lld redeems no code: status %ld, \"%.100s\"",
					 cookie->provider, fetch.status, error != NULL ? error : "no ID token");
		}
		json_decref(answer);
	}
	free(form);
	free(redirect);
	curl_free(user);
	curl_free(password);
	return token;
}

/* Returns an argument of the query, or NULL. */
static const char *
argument(const WebRequest * request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

/*
 * Handles the browser's return. Returns true if the database has to begin the
 * session.
 */
static bool
come_back(WebRequest * request, Provider * provider)
{
	SignInCookie cookie;
	ProviderAddresses addresses;
	const char *state = argument(request, "state");
	const char *issuer = argument(request, "iss");
	const char *code = argument(request, "code");
	char	   *token;
	json_t	   *claims = NULL;
	TokenVerdict verdict;

	if (!read_cookie(request, &cookie) || cookie.provider != request->sign_in.provider ||
		state == NULL || !is_equal_secret(state, cookie.state))
	{
		answer_failure(request, "expired");
		return false;
	}
	if (issuer != NULL && strcmp(issuer, provider_issuer(provider)) != 0)
	{
		answer_failure(request, "refused");
		return false;
	}
	if (argument(request, "error") != NULL || code == NULL || *code == '\0' || strlen(code) > 4096)
	{
		answer_failure(request, "denied");
		return false;
	}
	if (!provider_addresses(provider, &addresses))
	{
		answer_failure(request, "provider");
		return false;
	}
	token = issuer == NULL && addresses.says_issuer ? NULL :
		redeem_code(request, provider, &addresses, &cookie, code);
	provider_addresses_free(&addresses);
	if (token == NULL)
	{
		answer_failure(request, "refused");
		return false;
	}
	verdict = provider_verify(provider, token, &claims);
	free(token);
	if (verdict != TOKEN_SIGNED)
		answer_failure(request, verdict == TOKEN_UNKNOWN ? "provider" : "refused");
	else
	{
		request->provider = cookie.provider;
		request->claims = json_dumps(claims, JSON_COMPACT);
		request->sign_in.nonce = strdup(cookie.nonce);
		request->sign_in.page = strdup(cookie.page);
		free(request->token);
		request->token = strdup(PREFIX);	/* identifies the group whose share
											 * of the workers it uses */
		if (request->claims == NULL || request->sign_in.nonce == NULL ||
			request->sign_in.page == NULL || request->token == NULL)
			answer_failure(request, "provider");
	}
	json_decref(claims);
	return request->response == NULL;
}

bool
signin_answer(WebRequest * request)
{
	Provider   *provider;
	bool		goes_on = false;

	if (request->sign_in.step == SIGN_IN_LIST)
	{
		json_t	   *list = json_pack("{s:o}", "data", providers_json());
		char	   *text = json_dumps(list, JSON_COMPACT);

		json_decref(list);
		request->status = 200;
		request->response = MHD_create_response_from_buffer(text != NULL ? strlen(text) : 0, text,
															MHD_RESPMEM_MUST_FREE);
		MHD_add_response_header(request->response, "Content-Type", "application/json");
		MHD_add_response_header(request->response, "Cache-Control", "no-store");
		return false;
	}
	provider = provider_by_number(request->sign_in.provider);
	if (provider == NULL || *provider_client_id(provider) == '\0')
		problem_answer(request, 404, "there is no such identity provider", NULL,
					   "GET /v1/sign_in lists them.");
	else if (request->sign_in.step == SIGN_IN_BEGIN)
		begin(request, provider);
	else
		goes_on = come_back(request, provider);
	if (provider != NULL)
		provider_release(provider);
	return goes_on;
}

void
signin_finish(WebRequest * request, const PGresult * row, const PGresult * error)
{
	const char *sqlstate = error != NULL ? PQresultErrorField(error, PG_DIAG_SQLSTATE) : NULL;
	char		cookie[512];

	if (error != NULL || row == NULL)
	{
		LogLine("identity: provider %lld: nobody is signed in: %s", request->provider,
				 error != NULL ? PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY) : "no row");
		answer_failure(request, sqlstate == NULL ? "provider" :
					   strcmp(sqlstate, "42501") == 0 ? "no_rule" :
					   strcmp(sqlstate, "22023") == 0 ? "too_many" : "refused");
		return;
	}
	answer_redirect(request, request->sign_in.page);
	add_cookie(request, "");
	snprintf(cookie, sizeof(cookie), "%s=%.128s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
			 request_cookie(request), PQgetvalue(row, 0, 0), atoi(PQgetvalue(row, 0, 1)),
			 request->is_secure ? "; Secure" : "");
	MHD_add_response_header(request->response, "Set-Cookie", cookie);
}
