/*
 * provider.mjs: a real OpenID Connect provider for tests: npm's oidc-provider,
 * on loopback.
 *
 * People sign in by their name alone; who they are stands in PEOPLE.  It prints
 * a line when it listens.
 */
import Provider from 'oidc-provider';

const issuer = `http://127.0.0.1:${process.env.PORT}`;
const PEOPLE = {
	ann: { email: 'ann@acme.example', email_verified: true, groups: ['nlp', 'staff'], name: 'Ann' },
	olga: { email: 'olga@acme.example', email_verified: true, groups: ['gpu-admins'], name: 'Olga' },
	mallory: { email: 'olga@acme.example', email_verified: false, groups: [], name: 'gpu-admins' },
	stranger: { email: 'who@else.example', email_verified: true, groups: [], name: 'Stranger' }
};

const provider = new Provider(issuer, {
	clients: [
		{ client_id: 'console', client_secret: 'the console: its secret', redirect_uris: [process.env.REDIRECT] },
		{
			client_id: 'cli',
			token_endpoint_auth_method: 'none',
			application_type: 'native',
			redirect_uris: [],
			response_types: [],
			grant_types: ['urn:ietf:params:oauth:grant-type:device_code']
		},
		{
			client_id: 'robot',
			client_secret: 'beep',
			redirect_uris: [],
			response_types: [],
			grant_types: ['client_credentials']
		}
	],
	claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
	conformIdTokenClaims: false,
	cookies: { keys: ['for tests'] },
	features: {
		deviceFlow: { enabled: true },
		clientCredentials: { enabled: true },
		resourceIndicators: {
			enabled: true,
			defaultResource: () => undefined,
			getResourceServerInfo: () => ({ scope: 'api', audience: 'gpucredit', accessTokenFormat: 'jwt' })
		}
	},
	pkce: { required: () => true, methods: ['S256'] },
	findAccount: (_context, id) => ({
		accountId: id,
		claims: () => ({ sub: id, ...PEOPLE[id] })
	})
});

provider.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('listens'));
