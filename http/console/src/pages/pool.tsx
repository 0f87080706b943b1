/*
 * pool.tsx: which pool a page is about: the address says so.
 */
import { Chips } from '../parts';
import { useLive } from '../live';
import { useRole } from '../role';
import { go, usePlace } from '../route';
import type { List } from '../rows';
import { withQuery } from './account';

export function usePool(): string {
	return usePlace().query.get('pool') ?? 'default';
}

export function PoolChoice() {
	const role = useRole();
	const pool = usePool();
	const pools = useLive<List<{ value: string }>>(role.may('http.pools') ? '/v1/pools' : null, 60000);
	const names = (pools.data?.data ?? []).map((one) => one.value);

	if (names.length < 2) return null;
	return <Chips label="Pool" value={pool} options={names.map((name) => ({ value: name, name }))} change={(value) => go(withQuery('pool', value), true)} />;
}
