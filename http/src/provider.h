/*-------------------------------------------------------------------------
 *
 * provider.h
 *		Identity providers: their configuration, and the addresses and keys
 *		that they publish.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_PROVIDER_H
#define HTTP_PROVIDER_H

#include <jansson.h>
#include <stdbool.h>

/* How many providers may be read at once. */
#define REFRESHES_MOST	16

typedef struct Provider Provider;

/*
 * What a provider's configuration document contains. The structure owns its
 * texts.
 */
typedef struct ProviderAddresses
{
	char	   *authorization;
	char	   *token;
	char	   *jwks;
	bool		posts_secret;	/* the client's secret is sent in the form */
	bool		says_issuer;	/* the provider adds its issuer when it sends a
								 * browser back */
} ProviderAddresses;

typedef enum TokenVerdict
{
	TOKEN_SIGNED,				/* the provider has signed it */
	TOKEN_BAD,					/* no accepted key has signed it */
	TOKEN_UNKNOWN				/* the provider's keys are not known at the
								 * moment */
} TokenVerdict;

/*
 * Find a provider by its number or its issuer. They return NULL if there is
 * none. The caller releases it.
 */
extern Provider *provider_by_number(long long number);
extern Provider *provider_by_issuer(const char *issuer);
extern void provider_release(Provider *provider);

/*
 * Returns the providers by which a person can sign in, as JSON with provider
 * and name.
 */
extern json_t *providers_json(void);

extern long long provider_number(const Provider *provider);
extern const char *provider_issuer(const Provider *provider);
extern const char *provider_client_id(const Provider *provider);
extern const char *provider_client_secret(const Provider *provider);
extern const char *provider_scopes(const Provider *provider);
extern bool provider_is_bearer(const Provider *provider);

/*
 * Copies the provider's addresses, which the caller frees. Returns false if
 * they are not known at the moment.
 */
extern bool provider_addresses(Provider *provider, ProviderAddresses *addresses);
extern void provider_addresses_free(ProviderAddresses *addresses);

/*
 * Verifies the signature of a token, and returns its claims, which the caller
 * releases.
 */
extern TokenVerdict provider_verify(Provider *provider, const char *token, json_t **claims);

/*
 * Returns the issuer that a token names, without verifying the token, or NULL.
 * The caller frees it.
 */
extern char *token_issuer(const char *token);

#endif							/* HTTP_PROVIDER_H */
