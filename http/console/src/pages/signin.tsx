/*
 * signin.tsx: signing in with a token.
 */
import { useEffect, useState } from 'preact/hooks';
import { signIn, type Session } from '../api';
import { Field, Form } from '../parts';

export function SignIn(props: { done: (session: Session) => void }) {
	const [token, setToken] = useState('');

	useEffect(() => {
		document.title = 'Sign in – gpucredit';
	}, []);
	return (
		<div class="gate">
			<main>
				<h1>gpucredit</h1>
				<p class="muted">GPU credit and GPU jobs</p>
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
