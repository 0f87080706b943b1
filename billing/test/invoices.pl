# invoices.pl: invoices: what they say, who may see and issue them, numbers without
# gaps under concurrency, credit notes, HTML, PDF and FOCUS, and what an attacker
# would write into them
#
# Packages: weasyprint poppler-utils
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('invoices', 'gpucredit.node_suspect = 0', 'gpucredit.node_lost = 0');

# Acme used 2 GPUs of 2.00 for 90 minutes and, after the price had risen, 1 GPU of
# 3.00 for 20; 1.50 of it was paid by promotional credit, and a part refunded.
$node->safe_psql('postgres', 'CREATE DATABASE bills');
$node->safe_psql('bills', q{
	CREATE EXTENSION gpucredit_billing CASCADE;
	CREATE ROLE fin LOGIN IN ROLE gpucredit_admin;
	CREATE ROLE ops LOGIN IN ROLE gpucredit_operator;
	CREATE ROLE app LOGIN IN ROLE gpucredit_app;
	CREATE ROLE aud LOGIN IN ROLE gpucredit_auditor;
	CREATE ROLE whole LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE part LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE eve LOGIN IN ROLE gpucredit_tenant;
	SET gpucredit.clock = '2030-01-10 08:00+00';
	SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'nlp'), gpucredit.create_account('rival'),
		gpucredit.create_account('idle');
	SELECT gpucredit.bind_tenant('whole', 'acme'), gpucredit.bind_tenant('part', 'acme', 'nlp'), gpucredit.bind_tenant('eve', 'rival');
	SELECT gpucredit.issue('acme', '', 'paid', 100), gpucredit.issue('acme', '', 'promo', 1.5, 'promo', memo => 'welcome'),
		gpucredit.issue('rival', '', 'paid', 100);
	SELECT gpucredit.set_price('H100', 2), gpucredit.register_node('default', 'n1', 'H100', 8, 80000);
	SELECT gpucredit.reserve('acme', 'nlp', 'one', '2xH100', '2 hours'), gpucredit.reserve('rival', '', 'one', '1xH100', '2 hours');
	SELECT gpucredit.place();
	SET gpucredit.clock = '2030-01-10 09:30+00';
	SELECT gpucredit.settle('acme', 1, 1, 'completed', '90 minutes'), gpucredit.settle('rival', 2, 1, 'completed', '90 minutes');
	SELECT gpucredit.set_price('H100', 3);
	SELECT gpucredit.reserve('acme', 'nlp', 'two', '1xH100', '1 hour');
	SELECT gpucredit.place();
	SET gpucredit.clock = '2030-01-10 09:50+00';
	SELECT gpucredit.settle('acme', 3, 1, 'completed', '20 minutes');
	SELECT gpucredit.refund('acme', 1, 'sorry', 0.333333, 'slow disk')});

sub as
{
	my ($role, $sql, $clock) = @_;
	my ($out, $error);
	my $rc = $node->psql('bills', sprintf("SET gpucredit.clock = '%s';\nSET SESSION AUTHORIZATION %s;\n%s", $clock // '2030-02-03 12:00+00',
			$role, $sql), stdout => \$out, stderr => \$error);

	return $rc == 0 ? $out : "ERROR $error";
}

# Terms
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', '2030-01-01', 'x')}), qr/no terms/, 'without terms nothing is invoiced');
foreach my $bad ("'eur'", "'EUR', 0", "'EUR', 'NaN'", "'EUR', 1, 101", "'EUR', 1, -1", "'EUR', 1, 0, E'a\\nb'",
	"'EUR', series => 'a'", "'EUR', digits => 7", "'EUR', due_days => -1", "'EUR', seller => repeat('x', 3000)", "NULL")
{
	like(as('fin', "SELECT gpucredit_billing.set_terms('acme', $bad)"), qr/ERROR.*make no invoice/s, "no such terms: $bad");
}
my $hostile = q{<script>alert(1)</script> & "Söhne" 'AG' %s %1$s};
is(as('fin', qq{SELECT gpucredit_billing.set_terms('acme', 'EUR', 1.25, 19, 'VAT', 10, E'GPU House Ltd\\n1 Rack Street', \$\$$hostile\$\$,
	'PO-7', 'Thank you.')}), '', 'finance sets the terms');
as('fin', q{SELECT gpucredit_billing.set_terms('rival', 'JPY', 150, 10, digits => 0), gpucredit_billing.set_terms('idle', 'EUR')});
foreach my $role (qw(ops app aud whole part eve))
{
	like(as($role, q{SELECT gpucredit_billing.set_terms('acme', 'EUR')}), qr/permission denied/, "$role does not");
	like(as($role, q{SELECT gpucredit_billing.issue_invoice('acme', '2030-01-01', 'k')}), qr/permission denied/, "$role issues nothing");
}

# An invoice
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', '2030-02-01', 'k')}), qr/not over/, 'a month that runs has no invoice');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', '2030-01-31', 'k')}, '2030-01-31 23:59:59+00'), qr/not over/, 'until its last second');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', 'infinity', 'k')}), qr/not over/, 'nor is there one of a month without end');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('idle', '2030-01-01', 'k')}), qr/nothing to invoice/, 'who used nothing gets none');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('nobody', '2030-01-01', 'k')}), qr/does not exist|no such/, 'nor does who is not there');
my $first = as('fin', q{SELECT * FROM gpucredit_billing.issue_invoice('acme', '2030-01-17', 'jan')});
# (6 - 0.333333 + 1 - 1.5 + what the refund gave back to promotional credit) x 1.25
like($first, qr/^1\|INV-000001\|[\d.]+\|EUR\|f$/, 'an invoice has the first number');
is(as('fin', q{SELECT * FROM gpucredit_billing.issue_invoice('acme', '2030-01-01', 'jan')}), $first =~ s/f$/t/r, 'a repeated call answers it again');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', '2030-01-01', 'jan', 'PO-8')}), qr/other arguments/, 'a key is for one set of arguments');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', '2030-01-01', 'again')}), qr/has an invoice/, 'a month has one invoice');
my $lines = as('whole', q{SELECT kind, account, gpu_type, gpu_hours, per_gpu_hour, unit_price, amount FROM gpucredit_billing.invoice_lines(1)});
like($lines, qr/^usage\|nlp\|H100\|3\.000000\|2\.000000\|2\.50\d*\|7\.08$/m, 'a line for the former price: hours, unit price and amount after the refund');
like($lines, qr/^usage\|nlp\|H100\|0\.333333\|3\.000000\|3\.75\d*\|1\.25$/m, 'one for the price after it');
like($lines, qr/^promo\|nlp\|\|\|\|\|-\d/m, 'and one that takes off what promotional credit paid');
is(as('fin', q{SELECT subtotal = (SELECT sum(amount) FROM gpucredit_billing.invoice_lines(1)), discount = round(subtotal * 0.10, 2),
	tax = round((subtotal - discount) * 0.19, 2), total = subtotal - discount + tax, due_on, purchase_order FROM gpucredit_billing.invoice(1)}),
	't|t|t|t|2030-03-05|PO-7', 'the sums are sums of what stands above them');
is(as('fin', q{SELECT round((SELECT sum(credits) FROM gpucredit_billing.invoice_lines(1) WHERE kind = 'usage'), 6)
	= (SELECT sum(amount)::numeric FROM gpucredit.invoice('acme', '2030-01-01'))}), 't', 'the credits are those of the books, to the micro-credit');
is(as('fin', q{SELECT number, total FROM gpucredit_billing.issue_invoice('rival', '2030-01-01', 'jan')}), 'INV-000002|495', 'a currency without decimals has none');

# Who sees what
like(as($_, q{SELECT count(*) FROM gpucredit_billing.invoice_lines(1)}), qr/does not exist/, "$_ does not see it") foreach qw(part eve);
is(as('eve', q{SELECT string_agg(org, ',') FROM gpucredit_billing.invoices()}), 'rival', 'a tenant lists its own');
is(as('part', q{SELECT count(*) FROM gpucredit_billing.invoices()}), 0, 'a tenant of one account lists none');
like(as('part', q{SELECT gpucredit_billing.terms_of('acme')}), qr/does not exist/, 'and has no organisation as a whole');
like(as('eve', q{SELECT gpucredit_billing.focus_usage('acme', '2030-01-01')}), qr/ERROR/, 'nobody exports another\'s usage');
like(as('whole', q{SELECT * FROM gpucredit_billing.document}), qr/permission denied/, 'the tables are not a tenant\'s to read');
is(as('aud', q{SELECT count(*) FROM gpucredit_billing.invoices()}), 2, 'an auditor sees all');

# Immutable
foreach my $change ('UPDATE gpucredit_billing.document SET total = 0', 'DELETE FROM gpucredit_billing.document_line', 'TRUNCATE gpucredit_billing.document CASCADE')
{
	my ($rc, undef, $error) = $node->psql('bills', $change);

	like($error, qr/append-only/, "not even a superuser does by chance: $change");
}
my $page = as('whole', 'SELECT md5(gpucredit_billing.invoice_html(1))');
as('fin', q{SELECT gpucredit_billing.set_terms('acme', 'USD', 9, seller => 'Another')});
is(as('whole', 'SELECT md5(gpucredit_billing.invoice_html(1))'), $page, 'other terms change no invoice that was issued');

# Credit notes
like(as('fin', "SELECT gpucredit_billing.issue_credit_note(1, 'c', 'wrong', $_)"), qr/what is left/, "no credit note of $_") foreach '0', '-1', '1000', '0.001', "'NaN'";
like(as('fin', q{SELECT gpucredit_billing.issue_credit_note(1, 'c', '')}), qr/needs a reason/, 'nor one without a reason');
like(as('fin', q{SELECT number FROM gpucredit_billing.issue_credit_note(1, 'part', 'slow disk', 1.11)}), qr/^INV-000003$/, 'a part is taken back');
like(as('fin', q{SELECT number FROM gpucredit_billing.issue_credit_note(1, 'part', 'slow disk', 1.110)}), qr/^INV-000003$/, 'once');
like(as('fin', q{SELECT gpucredit_billing.issue_credit_note(3, 'x', 'note of a note')}), qr/does not exist/, 'a credit note has no credit note');
as('fin', q{SELECT gpucredit_billing.issue_credit_note(1, 'rest', 'wrong buyer')});
is(as('fin', q{SELECT open FROM gpucredit_billing.invoices('acme') WHERE document = 1}), '0.00', 'an invoice and its notes sum to nothing');
like(as('fin', q{SELECT gpucredit_billing.issue_credit_note(1, 'more', 'again')}), qr/what is left/, 'and no more is taken back');
like(as('fin', q{SELECT number FROM gpucredit_billing.issue_invoice('acme', '2030-01-01', 'again', 'PO-9')}), qr/^INV-000005$/, 'then the month is invoiced anew');

# Numbers under concurrency: four at once, of which some fail
my @at_once = map {
	my $i = $_;
	my $pid = fork() // die;

	if ($pid == 0)
	{
		open(STDOUT, '>', '/dev/null') && open(STDERR, '>&', \*STDOUT);
		exec 'psql', '-X', '-h', $node->host, '-p', $node->port, '-d', 'bills', '-c', qq{
			DO \$\$ BEGIN
				SET LOCAL gpucredit.clock = '2030-02-03 12:00+00';
				FOR n IN 1 .. 5 LOOP
					BEGIN
						PERFORM gpucredit_billing.issue_credit_note(2, '$i ' || n, 'one yen', 1);
						IF n = 3 THEN RAISE 'undone'; END IF;
						PERFORM pg_sleep(0.01);
					EXCEPTION WHEN raise_exception THEN NULL;
					END;
				END LOOP;
			END \$\$} or POSIX::_exit(127);
	}
	$pid
} 1 .. 4;
waitpid $_, 0 foreach @at_once;
is(as('fin', q{SELECT count(*), max(serial), (SELECT last FROM gpucredit_billing.series) FROM gpucredit_billing.document}), '21|21|21',
	'sixteen notes at once, and four that were undone, leave no gap');
is(as('fin', q{SELECT open FROM gpucredit_billing.invoices('rival') WHERE kind = 'invoice'}), '477', 'none is lost, and tax falls as what is left does');

# HTML, PDF, FOCUS
$node->safe_psql('bills', 'SELECT gpucredit_billing.invoice_html(1)');
my $html = as('whole', 'SELECT gpucredit_billing.invoice_html(1)');
unlike($html, qr/<script|src=|href=|url\(|https?:/, 'the page runs nothing and loads nothing');
like($html, qr/&lt;script&gt;alert\(1\)&lt;\/script&gt; &amp; &quot;Söhne&quot; &#39;AG&#39; %s %1\$s/, 'a hostile name is shown as it is');
my $pdf = PostgreSQL::Test::Utils::tempdir() . '/invoice.pdf';
is(system("$FindBin::RealBin/../tools/invoice-pdf", 1, $pdf, sprintf('host=%s port=%s dbname=bills user=whole', $node->host, $node->port)), 0, 'WeasyPrint makes a PDF of it');
my $text = qx(pdftotext -layout '$pdf' -);
like($text, qr/Invoice INV-000001.*Purchase order\s+PO-7.*Total EUR\s+\d/s, 'which has the number, the purchase order and the total');
isnt(system("$FindBin::RealBin/../tools/invoice-pdf", '1; DROP', $pdf), 0, 'the number of a document is a number');
my $csv = as('whole', q{COPY (SELECT * FROM gpucredit_billing.focus_usage('acme', '2030-01-01')) TO STDOUT (FORMAT csv, HEADER)});
my ($head, @rows) = split /\n/, $csv;
my %has = map { $_ => 1 } split /,/, $head;
is(join(' ', grep { !$has{$_} } qw(BilledCost BillingAccountId BillingAccountName BillingAccountType BillingCurrency BillingPeriodEnd
	BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost
	InvoiceIssuerName ListCost PricingQuantity PricingUnit ProviderName PublisherName ServiceCategory ServiceName ServiceSubcategory
	SubAccountType)), '', 'the export has what FOCUS 1.2 demands');
is(scalar @rows, 3, 'and a row for each line');
is(as('fin', q{SELECT sum("BilledCost") = 9 * (SELECT sum(credits) FROM gpucredit_billing.invoice_lines(5)) FROM gpucredit_billing.focus_usage('acme', '2030-01-01')}),
	't', 'whose sum is that of the credits, at the present price');

# Less than nothing, and nothing
as('fin', q{SELECT gpucredit_billing.set_terms('acme', 'EUR', 1, 19, 'VAT', 10), gpucredit.refund('acme', 1, 'late', 5, 'bad disk')});
as('fin', q{SELECT gpucredit_billing.issue_invoice('acme', '2030-02-01', 'february')}, '2030-03-02 12:00+00');
is(as('fin', q{SELECT subtotal < 0, discount = round(subtotal * 0.10, 2), tax = round((subtotal - discount) * 0.19, 2), total = subtotal - discount + tax
	FROM gpucredit_billing.invoice((SELECT max(document) FROM gpucredit_billing.invoices('acme')))}),
	't|t|t|t', 'what is given back in a later month is given back with the discount');
as('fin', q{SELECT gpucredit_billing.issue_credit_note(2, 'all', 'another discount'), gpucredit_billing.set_terms('rival', 'JPY', 150, 10, discount_percent => 100, digits => 0)});
is($node->safe_psql('bills', q{SET gpucredit.clock = '2030-02-03 12:00+00';
	SET ROLE fin;
	SELECT total FROM gpucredit_billing.issue_invoice('rival', '2030-01-01', 'free');
	RESET ROLE;
	SELECT d.issued_by, (SELECT e.caller FROM gpucredit_billing.event e ORDER BY e.event DESC LIMIT 1)
	FROM gpucredit_billing.document d ORDER BY d.document DESC LIMIT 1}), "0\nfin|fin", 'an invoice of nothing, and the role that issued it');
like(as('fin', q{SELECT gpucredit_billing.issue_invoice('rival', '2030-01-01', 'twice')}), qr/has an invoice/, 'is the only one of its month');
my ($free) = as('fin', q{SELECT max(document) FROM gpucredit_billing.invoices('rival')});
is(as('fin', "SELECT total FROM gpucredit_billing.issue_credit_note($free, 'none', 'wrong discount')"), 0, 'until a note of nothing takes it back');
like(as('fin', "SELECT gpucredit_billing.issue_credit_note($free, 'more', 'again')"), qr/what is left/, 'once');
is(as('fin', q{SELECT "InvoiceId" IS NULL FROM gpucredit_billing.focus_usage('rival', '2030-01-01')}), 't', 'then no export names it');
as('fin', q{SELECT gpucredit_billing.set_terms('rival', 'JPY', 150, 10, digits => 0)});
is(as('fin', q{SELECT total FROM gpucredit_billing.issue_invoice('rival', '2030-01-01', 'not free')}), 495, 'and the month is invoiced anew');

is(as('fin', q{SELECT string_agg(v::text, E'\n') FROM gpucredit_billing.verify() v}), '', 'nothing breaks an invariant');
$node->safe_psql('bills', q{ALTER TABLE gpucredit_billing.document_line DISABLE TRIGGER ALL;
	UPDATE gpucredit_billing.document_line SET credits = credits + 0.000001 WHERE document = 2;
	DELETE FROM gpucredit_billing.document_line WHERE document = 3});
like(as('fin', q{SELECT string_agg(v::text, E'\n') FROM gpucredit_billing.verify() v}), qr/lines_sum.*entries_say|entries_say.*lines_sum/s,
	'a micro-credit more, or a line less, is found');
is($node->safe_psql('bills', 'SELECT count(*) FROM gpucredit.verify()'), 0, 'the books balance');
$node->stop;
done_testing();
