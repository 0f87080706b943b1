/*
 * account.tsx: which account of an organisation a page is about: the address
 * says so, and a choice changes the address.
 */
import { address } from '../api';
import { accountName } from '../format';
import { useLive } from '../live';
import { useRole } from '../role';
import { go, here, usePlace } from '../route';
import type { Account, List } from '../rows';

export function useAccount(org: string): string {
	const role = useRole();
	const place = usePlace();

	return place.query.get('account') ?? role.me.accounts.find((one) => one.org === org)?.account ?? '';
}

/* The present address with one argument changed. */
export function withQuery(name: string, value: string): string {
	const query = here().query;

	if (value === '') query.delete(name);
	else query.set(name, value);
	const text = query.toString();

	return `${window.location.pathname}${text ? `?${text}` : ''}`;
}

export function AccountChoice(props: { org: string }) {
	const role = useRole();
	const account = useAccount(props.org);
	const own = role.me.accounts.find((one) => one.org === props.org)?.account ?? '';
	const accounts = useLive<List<Account>>(role.may('http.accounts') ? address('/v1/accounts', { org: props.org }) : null, 30000);
	const names = (accounts.data?.data ?? []).map((one) => one.account).filter((one) => own === '' || one === own || one.startsWith(`${own}/`));

	if (names.length < 2) return null;
	return (
		<label>
			<span class="only-read">Account</span>
			<select
				value={account}
				onChange={(event) => go(withQuery('account', event.currentTarget.value === own ? '' : event.currentTarget.value), true)}
			>
				{names.map((name) => (
					<option key={name} value={name}>
						{name === '' ? `all of ${props.org}` : accountName(name)}
					</option>
				))}
			</select>
		</label>
	);
}
