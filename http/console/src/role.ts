/*
 * role.ts: what the caller may do, as GET /v1/functions says.  What it may not
 * call is not shown.
 */
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Session } from './api';
import type { Me } from './rows';

export interface Role {
	session: Session;
	me: Me;
	may: (...functions: string[]) => boolean;
}

export const RoleContext = createContext<Role | null>(null);

export function useRole(): Role {
	const role = useContext(RoleContext);

	if (!role) throw new Error('nobody is signed in');
	return role;
}
