/*
 * signin.tsx: signing in by an identity provider, or with a token.
 */
import { useEffect, useState } from 'preact/hooks';
import { findProviders, signIn, type Provider, type Session } from '../api';
import { Field, Form } from '../parts';

/* Why the daemon sent somebody back here from a provider, by its word in the address. */
const FAILURES: Record<string, string> = {
	expired: 'Signing in took longer than ten minutes, or began in another window. Try again.',
	denied: 'The provider did not sign you in.',
	refused: 'The provider’s answer is not good. The daemon’s log says why.',
	provider: 'The provider does not answer. Try again in a minute.',
	no_rule: 'The provider knows you, but no rule lets you in here. Ask an administrator.',
	too_many: 'You have signed in too often today. Try again tomorrow.'
};

export function SignIn(props: { done: (session: Session) => void }) {
	const [token, setToken] = useState('');
	const [providers, setProviders] = useState<Provider[]>([]);
	const failed = FAILURES[new URLSearchParams(location.search).get('sign_in') ?? ''];
	const here = failed ? '/console/' : location.pathname + location.search;

	useEffect(() => {
		document.title = 'Sign in – gpucredit';
		void findProviders().then(setProviders);
	}, []);
	return (
		<div class="gate">
			<main>
				<h1>gpucredit</h1>
				<p class="muted">GPU credit and GPU jobs</p>
				{failed && <p class="problem" role="alert">{failed}</p>}
				{providers.map((one) => (
					<a class="button provider" href={`/v1/sign_in/${one.provider}?return=${encodeURIComponent(here)}`}>
						Sign in with {one.name}
					</a>
				))}
				{providers.length > 0 && <p class="or">or with a token</p>}
				<Form label="Sign in" disabled={token.trim() === ''} send={async () => props.done(await signIn(token.trim()))}>
					<Field label="Token" help="Your administrator issues it with gpucredit_http.issue_token(). It begins with gpc_.">
						{(id) => (
							<input
								id={id}
								type="password"
								autocomplete="current-password"
								spellcheck={false}
								value={token}
								onInput={(event) => setToken(event.currentTarget.value)}
							/>
						)}
					</Field>
				</Form>
			</main>
		</div>
	);
}
