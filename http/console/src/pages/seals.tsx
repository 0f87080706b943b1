/*
 * seals.tsx: the chain of seals, its check, and proofs of single rows.
 */
import { useState } from 'preact/hooks';
import { address, request } from '../api';
import { useLive } from '../live';
import { download, Empty, Field, Form, Page, Section, Shown, Table, Tile, Tiles, When } from '../parts';
import type { List, Seal, SealStatus } from '../rows';

interface Broken {
	problem: string;
	batch: number;
	row_name: string | null;
	detail: string;
}

function Check() {
	const [published, setPublished] = useState('');

	return (
		<Section title="Check the chain" lead="hashes every row that is kept again">
			<Form
				label="Check"
				send={async () => {
					const hex = published.trim();
					const bytes = hex.match(/../g)?.map((pair) => String.fromCharCode(parseInt(pair, 16))).join('') ?? '';
					const found = await request<List<Broken>>('POST', '/v1/call/verify_audit', hex ? { published: btoa(bytes) } : {});

					if (found.data.length === 0) return hex ? 'Every row is what was sealed, and the chain contains the seal that you kept.' : 'Every row is what was sealed.';
					return (
						<div class="problem" role="alert">
							{found.data.map((one) => <p key={one.batch}><b>{one.problem.replace(/_/g, ' ')}</b>, batch {one.batch}{one.row_name && `, ${one.row_name}`}: {one.detail}</p>)}
						</div>
					);
				}}
			>
				<div class="fields">
					<Field label="A seal that you kept" wide help="64 hexadecimal digits; without one, only this database's own chain is checked">
						{(id) => <input id={id} value={published} pattern="\s*([0-9a-fA-F]{64})?\s*" spellcheck={false} onInput={(event) => setPublished(event.currentTarget.value)} />}
					</Field>
				</div>
			</Form>
		</Section>
	);
}

function Prove() {
	const [kind, setKind] = useState('entry');
	const [row, setRow] = useState('');

	return (
		<Section title="Prove a row" lead="to somebody who has nothing but a seal">
			<Form
				label="Make the proof"
				disabled={row === ''}
				send={async () => {
					const proof = await request<{ batch: number; leaf: string }>('POST', '/v1/call/audit_proof', { entry: Number(row), kind });

					return (
						<>
							Batch {proof.batch} contains it. The proof, which docs/seals.md says how to check:
							<pre class="proof" tabIndex={0}>{JSON.stringify(proof, null, 1)}</pre>
						</>
					);
				}}
			>
				<div class="fields">
					<Field label="Of">
						{(id) => (
							<select id={id} value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
								<option value="entry">an entry of the ledger</option>
								<option value="audit">a row of the audit log</option>
							</select>
						)}
					</Field>
					<Field label="Number">{(id) => <input id={id} inputMode="numeric" pattern="\d+" value={row} onInput={(event) => setRow(event.currentTarget.value)} />}</Field>
				</div>
			</Form>
		</Section>
	);
}

export function SealsPage() {
	const status = useLive<List<SealStatus>>('/v1/seals/status', 5000);
	const seals = useLive<List<Seal>>(address('/v1/seals', { limit: 50 }), 10000);

	return (
		<Page
			name="Seals"
			title="Seals"
			over="Who keeps one outside can prove that nothing before it was rewritten"
			actions={
				<button
					type="button"
					disabled={(seals.data?.data.length ?? 0) === 0}
					onClick={() => download('seals.csv', ['batch', 'sealed_at', 'entries', 'audits', 'seal'], (seals.data?.data ?? []).map((one) => [one.batch, one.sealed_at, one.entries, one.audits, one.seal]))}
				>
					CSV
				</button>
			}
		>
			<Shown live={status}>
				{(list) => {
					const one = list.data[0];

					return one === undefined ? null : (
						<Tiles>
							<Tile name="Last batch" note={<When at={one.last_sealed_at} relative />}>{one.last_batch ?? 'none'}</Tile>
							<Tile name="Entries not sealed" note="at most">{one.entries_unsealed ?? 0}</Tile>
							<Tile name="Audit rows not sealed" note="at most">{one.audits_unsealed ?? 0}</Tile>
							{one.waiting_since && <Tile name="Waits for" note={<>since <When at={one.waiting_since} relative /></>}>{one.waiting_for?.length ?? 0} open transactions</Tile>}
						</Tiles>
					);
				}}
			</Shown>
			<Section title="The chain" lead="newest first">
				<Shown live={seals}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>Nothing is sealed yet. Upkeep seals each minute what has committed.</p></Empty>
						) : (
							<Table
								caption="Seals, newest first"
								columns={[
									{ name: 'Batch', head: true, cell: (row: Seal) => row.batch },
									{ name: 'Sealed', cell: (row) => <When at={row.sealed_at} /> },
									{ name: 'Entries', number: true, cell: (row) => <>{row.entries}{row.entries_left && <span class="muted"> left</span>}</> },
									{ name: 'Audit rows', number: true, cell: (row) => <>{row.audits}{row.audits_left && <span class="muted"> left</span>}</> },
									{ name: 'Seal', cell: (row) => <code class="hex">{row.seal}</code> }
								]}
								rows={list.data}
								id={(row) => row.batch}
							/>
						)
					}
				</Shown>
			</Section>
			<Check />
			<Prove />
		</Page>
	);
}
