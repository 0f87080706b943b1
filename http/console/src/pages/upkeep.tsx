/*
 * upkeep.tsx: whether the books balance, how late upkeep is, and alerts of all
 * organisations.
 */
import { duration, seconds } from '../format';
import { useLive } from '../live';
import { Empty, Page, Section, Shown, Table } from '../parts';
import { useRole } from '../role';
import type { Alert, Finding, Lag, List } from '../rows';
import { AlertTable } from './alerts';

export function UpkeepPage() {
	const role = useRole();
	const lags = useLive<List<Lag>>(role.may('http.upkeep') ? '/v1/upkeep' : null, 5000);
	const findings = useLive<List<Finding>>('/v1/verify', 60000);
	const alerts = useLive<List<Alert>>(role.may('denials') ? '/v1/alerts/all?limit=50' : null, 10000);

	return (
		<Page name="Upkeep" title="Upkeep">
			<Section title="The books" lead="every figure is recomputed from the entries, each minute">
				<Shown live={findings}>
					{(list) =>
						list.data.length === 0 ? (
							<div class="success">Every balance is the sum of its entries, and no device is given twice.</div>
						) : (
							<Table
								caption="What does not hold"
								columns={[
									{ name: 'Invariant', head: true, cell: (row: Finding) => <span class="warn">{row.invariant}</span> },
									{ name: 'Organisation', cell: (row) => row.org },
									{ name: 'Subject', cell: (row) => row.subject },
									{ name: 'Detail', cell: (row) => row.detail }
								]}
								rows={list.data}
								id={(row) => row.invariant + row.subject + row.detail}
							/>
						)
					}
				</Shown>
				<p><button type="button" onClick={findings.again}>Verify now</button></p>
			</Section>
			<Section title="Upkeep" lead="no figure is wrong while it is late">
				<Shown live={lags}>
					{(list) => (
						<Table
							caption="How late each task is"
							columns={[
								{ name: 'Task', head: true, cell: (row: Lag) => row.task.replace(/_/g, ' ') },
								{ name: 'Late by', number: true, cell: (row) => (seconds(row.lag) > 0 ? <span class={seconds(row.lag) > 600 ? 'warn' : undefined}>{duration(row.lag)}</span> : 'not late') }
							]}
							rows={list.data}
							id={(row) => row.task}
						/>
					)}
				</Shown>
				{lags.data && lags.data.data.some((one) => seconds(one.lag) > 600) && (
					<Empty><p>Upkeep is late. Have it run each minute: <code>SELECT gpucredit.install_jobs()</code>.</p></Empty>
				)}
			</Section>
			{role.may('denials') && (
				<Section title="Alerts" lead="of all organisations">
					<Shown live={alerts}>
						{(list) => (list.data.length === 0 ? <Empty><p>There are no alerts.</p></Empty> : <AlertTable rows={list.data} />)}
					</Shown>
				</Section>
			)}
		</Page>
	);
}
