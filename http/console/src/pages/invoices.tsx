/*
 * invoices.tsx: invoices and credit notes of an organisation: their list, each of
 * them, and the forms by which finance issues them.
 */
import { useState } from 'preact/hooks';
import { address, newKey, read, request } from '../api';
import { dayOf } from '../format';
import { refreshAll, useLive } from '../live';
import { Ask, download, Empty, Field, Form, Page, Section, Shown, Table, Tile, Tiles } from '../parts';
import { useRole } from '../role';
import { Link, to } from '../route';
import type { Issued, IssuedDocument, IssuedLine, List, Terms } from '../rows';

/* An amount of a currency, as it is on the document: never a floating-point number. */
function amountText(text: string | null): string {
	if (text === null) return '–';
	const [, sign, whole, part] = /^(-?)(\d+)(\.\d+)?$/.exec(text) ?? ['', '', text, ''];

	return `${sign ? '−' : ''}${(whole ?? '').replace(/\B(?=(\d{3})+$)/g, ',')}${part ?? ''}`;
}

/* A unit price without the zeros that end it. */
function priceText(text: string | null): string {
	return text === null ? '' : amountText(text.replace(/(\.\d\d\d*?)0+$/, '$1'));
}

const kindText = (kind: string) => (kind === 'invoice' ? 'Invoice' : 'Credit note');

function monthBefore(): string {
	const day = new Date();

	day.setUTCDate(0);
	return day.toISOString().slice(0, 7);
}

function IssueInvoice(props: { org: string }) {
	const [month, setMonth] = useState(monthBefore());
	const [order, setOrder] = useState('');
	const [key] = useState(newKey);

	return (
		<Form
			label="Issue the invoice"
			disabled={!/^\d{4}-\d\d$/.test(month)}
			send={async () => {
				const answer = await request<{ document: number; number: string }>('POST', '/v1/billing/invoices', {
					org: props.org, month: `${month}-01`, key: `${key}-${month}-${order.trim()}`, ...(order.trim() ? { purchase_order: order.trim() } : {})
				});

				refreshAll();
				return <Link href={to(['o', props.org, 'invoices', answer.document])}>{answer.number} is issued. Look at it.</Link>;
			}}
		>
			<div class="fields">
				<Field label="Month (UTC)" help="it must be over">{(id) => <input id={id} type="month" required value={month} onInput={(event) => setMonth(event.currentTarget.value)} />}</Field>
				<Field label="Purchase order" help="if it is not that of the terms">{(id) => <input id={id} maxLength={100} value={order} onInput={(event) => setOrder(event.currentTarget.value)} />}</Field>
			</div>
		</Form>
	);
}

const FIRST: Terms = {
	currency: 'EUR', per_credit: '1', discount_percent: '0', tax_name: 'VAT', tax_percent: '0', due_days: 30,
	seller: '', buyer: '', purchase_order: '', note: '', series: 'INV', digits: 2
};

function TermsForm(props: { org: string; terms: Terms; close: () => void }) {
	const [terms, setTerms] = useState(props.terms);
	const text = (name: keyof Terms, label: string, help?: string) => (
		<Field label={label} help={help}>
			{(id) => <input id={id} value={terms[name]} onInput={(event) => setTerms({ ...terms, [name]: event.currentTarget.value })} />}
		</Field>
	);
	const lines = (name: 'seller' | 'buyer' | 'note', label: string) => (
		<Field label={label} wide>
			{(id) => <textarea id={id} class="address" rows={3} value={terms[name]} onInput={(event) => setTerms({ ...terms, [name]: event.currentTarget.value })} />}
		</Field>
	);

	return (
		<Form
			label="Set the terms"
			send={async () => {
				await request('POST', '/v1/billing/terms', {
					org: props.org, currency: terms.currency, per_credit: terms.per_credit, tax_percent: terms.tax_percent, tax_name: terms.tax_name,
					discount_percent: terms.discount_percent, seller: terms.seller, buyer: terms.buyer, purchase_order: terms.purchase_order,
					note: terms.note, due_days: Number(terms.due_days), series: terms.series, digits: Number(terms.digits)
				});
				refreshAll();
				props.close();
			}}
			beside={<button type="button" class="plain" onClick={props.close}>Leave them</button>}
		>
			<div class="fields">
				{text('currency', 'Currency', 'three letters')}
				{text('per_credit', 'Price of one credit')}
				{text('digits', 'Decimals of the currency')}
				{text('tax_name', 'Tax')}
				{text('tax_percent', 'Tax, %')}
				{text('discount_percent', 'Discount, %')}
				{text('due_days', 'Due after days')}
				{text('purchase_order', 'Purchase order')}
				{text('series', 'Series of numbers', 'one for each seller')}
				{lines('seller', 'Seller')}
				{lines('buyer', 'Buyer')}
				{lines('note', 'Note below the sums')}
			</div>
		</Form>
	);
}

export function InvoicesPage(props: { org: string }) {
	const role = useRole();
	const live = useLive<List<Issued>>(address('/v1/billing/invoices', { org: props.org, limit: 1000 }), 30000);
	const terms = useLive<List<Terms>>(address('/v1/billing/terms', { org: props.org }), 30000);
	const agreed = terms.data?.data[0];
	const may = role.may('billing.issue_invoice');

	return (
		<Page name="Invoices" title="Invoices" over={props.org}>
			<Section title="Issued" lead="nobody can change them; the newest first">
				<Shown live={live}>
					{(list) =>
						list.data.length === 0 ? (
							<Empty><p>{may ? 'No invoice was issued yet. Set the terms below, and issue one for a month that is over.' : 'No invoice was issued yet. The first one comes after a month with usage.'}</p></Empty>
						) : (
							<>
								<Table
									caption="Invoices and credit notes"
									columns={[
										{ name: 'Number', head: true, cell: (row: Issued) => <Link href={to(['o', props.org, 'invoices', row.document])}>{row.number}</Link> },
										{ name: 'Kind', cell: (row) => (row.corrects ? `Credit note for ${row.corrects}` : 'Invoice') },
										{ name: 'Month', cell: (row) => row.month.slice(0, 7) },
										{ name: 'Issued', cell: (row) => dayOf(row.issued_at) },
										{ name: 'Due', cell: (row) => (row.due_on ? dayOf(row.due_on) : '–') },
										{ name: 'Total', number: true, cell: (row) => `${amountText(row.total)} ${row.currency}` },
										{ name: 'After credit notes', number: true, cell: (row) => amountText(row.open) }
									]}
									rows={list.data}
									id={(row) => row.document}
								/>
								<p>
									<button
										type="button"
										onClick={() =>
											download(
												`invoices-${props.org}.csv`,
												['number', 'kind', 'corrects', 'month', 'issued_at', 'due_on', 'currency', 'total', 'open'],
												list.data.map((one) => [one.number, one.kind, one.corrects, one.month, one.issued_at, one.due_on, one.currency, one.total, one.open])
											)
										}
									>
										CSV of the list
									</button>
								</p>
							</>
						)
					}
				</Shown>
			</Section>
			{may && agreed && <Section title="Issue an invoice" lead="It gets the next number, and stays as it is."><IssueInvoice org={props.org} /></Section>}
			<Section title="Terms" lead="of the next invoice">
				<Shown live={terms}>
					{() => (
						<>
							{agreed ? (
								<Tiles>
									<Tile name="One credit">{priceText(agreed.per_credit)} {agreed.currency}</Tile>
									<Tile name="Discount">{priceText(agreed.discount_percent)} %</Tile>
									<Tile name={agreed.tax_name || 'Tax'}>{priceText(agreed.tax_percent)} %</Tile>
									<Tile name="Due after">{agreed.due_days} days</Tile>
									<Tile name="Purchase order">{agreed.purchase_order || '–'}</Tile>
								</Tiles>
							) : (
								<Empty><p>{may ? 'Nobody has set the terms of this organisation: its currency, what a credit costs in it, and its tax.' : 'Nobody has set the terms yet. Your provider does.'}</p></Empty>
							)}
							{may && (
								<p>
									<Ask button={agreed ? 'Change the terms' : 'Set the terms'} title={`Terms of ${props.org}`}>
										{(close) => <TermsForm org={props.org} terms={agreed ?? FIRST} close={close} />}
									</Ask>
								</p>
							)}
						</>
					)}
				</Shown>
			</Section>
		</Page>
	);
}

function lineText(line: IssuedLine, reason: string): string {
	switch (line.kind) {
		case 'usage': return `${line.gpu_type}, ${line.tier?.replace(/_/g, ' ')}, ${line.jobs} ${line.jobs === 1 ? 'job' : 'jobs'}`;
		case 'holds': return 'Holds of applications';
		case 'promo': return 'Paid by promotional credit';
		case 'grant': return 'Paid by granted credit';
		default: return reason;
	}
}

/* The document as a file, which a browser prints. */
async function save(document: string, number: string): Promise<void> {
	const page = (await read<string>(`/v1/billing/invoices/${document}/html`))?.value ?? '';
	const link = window.document.createElement('a');

	link.href = URL.createObjectURL(new Blob([page], { type: 'text/html' }));
	link.download = `${number}.html`;
	link.click();
	window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function CreditNote(props: { document: string; currency: string; close: () => void }) {
	const [reason, setReason] = useState('');
	const [amount, setAmount] = useState('');
	const [key] = useState(newKey);

	return (
		<Form
			label="Issue the credit note"
			danger
			disabled={reason.trim() === '' || !/^(\d+(\.\d+)?)?$/.test(amount)}
			send={async () => {
				await request('POST', `/v1/billing/invoices/${props.document}/credit_notes`, { key, reason: reason.trim(), ...(amount ? { amount } : {}) });
				refreshAll();
				props.close();
			}}
			beside={<button type="button" class="plain" onClick={props.close}>Leave the invoice</button>}
		>
			<Field label={`Amount before tax, ${props.currency}`} help="Leave it empty for all that is left.">{(id) => <input id={id} inputMode="decimal" value={amount} onInput={(event) => setAmount(event.currentTarget.value)} />}</Field>
			<Field label="Reason" help="stands on the credit note">{(id) => <input id={id} required maxLength={500} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}</Field>
		</Form>
	);
}

export function InvoicePage(props: { org: string; document: string }) {
	const role = useRole();
	const live = useLive<IssuedDocument>(`/v1/billing/invoices/${encodeURIComponent(props.document)}`, 60000);
	const lines = useLive<List<IssuedLine>>(`/v1/billing/invoices/${encodeURIComponent(props.document)}/lines`, 60000);
	const one = live.data;

	return (
		<Page
			name={one?.number ?? 'Invoice'}
			title={one ? `${kindText(one.kind)} ${one.number}` : 'Invoice'}
			over={<Link href={to(['o', props.org, 'invoices'])}>{props.org} / Invoices</Link>}
			actions={one && (
				<>
					<button type="button" onClick={() => void save(props.document, one.number)}>Page for print</button>
					{one.kind === 'invoice' && role.may('billing.issue_credit_note') && (
						<Ask button="Credit note" title={`Credit note for ${one.number}`}>
							{(close) => <CreditNote document={props.document} currency={one.currency} close={close} />}
						</Ask>
					)}
				</>
			)}
		>
			<Shown live={live}>
				{(it) => (
					<>
						<Tiles>
							<Tile name={`Total, ${it.currency}`}>{amountText(it.total)}</Tile>
							<Tile name="Month (UTC)">{it.month.slice(0, 7)}</Tile>
							<Tile name="Issued">{dayOf(it.issued_at)}</Tile>
							{it.due_on && <Tile name="Due">{dayOf(it.due_on)}</Tile>}
							{it.purchase_order && <Tile name="Purchase order">{it.purchase_order}</Tile>}
						</Tiles>
						<Section title="Lines">
							<Shown live={lines}>
								{(list) => (
									<Table
										caption="Lines"
										columns={[
											{ name: 'Account', head: true, cell: (row: IssuedLine) => row.account || props.org },
											{ name: 'For', cell: (row) => lineText(row, it.reason) },
											{ name: 'GPU-hours', number: true, cell: (row) => (row.gpu_hours === null ? '' : Number(row.gpu_hours).toFixed(3)) },
											{ name: 'Price an hour', number: true, cell: (row) => priceText(row.unit_price) },
											{ name: `Amount, ${it.currency}`, number: true, cell: (row) => amountText(row.amount) }
										]}
										rows={list.data}
										id={(row) => row.line}
										foot={
											<>
												<tr class="sum"><th scope="row" colSpan={4}>Sum</th><td class="n">{amountText(it.subtotal)}</td></tr>
												{!/^-?0(\.0*)?$/.test(it.discount) && <tr class="sum"><th scope="row" colSpan={4}>Discount {priceText(it.discount_percent)} %</th><td class="n">{amountText(it.discount.startsWith('-') ? it.discount.slice(1) : `-${it.discount}`)}</td></tr>}
												<tr class="sum"><th scope="row" colSpan={4}>{it.tax_name} {priceText(it.tax_percent)} %</th><td class="n">{amountText(it.tax)}</td></tr>
												<tr><th scope="row" colSpan={4}>Total</th><td class="n">{amountText(it.total)}</td></tr>
											</>
										}
									/>
								)}
							</Shown>
						</Section>
						<Section title="Parties">
							<div class="parties">
								<p><small>Seller</small>{it.seller || '–'}</p>
								<p><small>Buyer</small>{it.buyer || props.org}</p>
								{it.note && <p><small>Note</small>{it.note}</p>}
							</div>
						</Section>
					</>
				)}
			</Shown>
		</Page>
	);
}
