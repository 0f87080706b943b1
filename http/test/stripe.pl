# stripe.pl: the example that takes payments by Stripe, billing/examples/stripe.py:
# signatures, events of Stripe that come twice, in another order, late or forged,
# top-up from the crossing of the line to the credit, and metering
#
# Packages: libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libcjose-dev libssl-dev libpq-dev libhttp-tiny-perl python3
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256 hmac_sha256_hex);
use FindBin;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use lib "$FindBin::RealBin/lib";
use GpuCreditHttp;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = http_node('stripe');
my %port = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(stripe example);
my $key = 'whsec_stripe';
my @children;

$node->safe_psql('web', 'CREATE EXTENSION gpucredit_billing');
my %token = map { $_ => token($node, $_) } qw(root_admin eve);
daemon_start($node, '--webhook-networks', '127.0.0.1/32');
my $hook = call($token{root_admin}, 'POST', '/v1/webhooks', { org => 'acme', account => '', key => 'hook', url => "http://127.0.0.1:$port{example}/gpucredit",
		kinds => [qw(balance.top_up job.ended job.requeued)] })->{json};
ok($hook->{secret}, 'the webhook is set') or diag(encode_json($hook));

sub start
{
	my ($env, @command) = @_;
	my $pid = fork() // die;

	if ($pid == 0)
	{
		chdir $folder;
		@ENV{ keys %$env } = values %$env;
		open(STDERR, '>>', 'log') && open(STDOUT, '>&', \*STDERR) or POSIX::_exit(1);
		exec @command or POSIX::_exit(127);
	}
	push @children, $pid;
	return $pid;
}
append_to_file("$folder/customers", encode_json({ acme => 'cus_rich', rival => 'cus_poor' }));
my %env = (GPUCREDIT => 'http://127.0.0.1:' . daemon_port(), GPUCREDIT_TOKEN => $token{root_admin}, GPUCREDIT_SECRET => $hook->{secret},
	STRIPE_KEY => 'sk_test', STRIPE_SECRET => $key, STRIPE_API => "http://127.0.0.1:$port{stripe}", CUSTOMERS => "$folder/customers", CENTS => '50',
	METER => 'gpu_credits', PORT => $port{example});
start({}, 'python3', "$FindBin::RealBin/stripe/fake.py", $port{stripe});
start(\%env, 'python3', "$FindBin::RealBin/../../billing/examples/stripe.py");
foreach my $port (values %port)
{
	until_true(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }) or die "no server: " . slurp_file("$folder/log");
}

END
{
	my $status = $?;

	kill 'KILL', @children;
	$? = $status;
}

# What Stripe sends; its status.
sub stripe
{
	my ($type, $object, %change) = @_;
	my $body = JSON::PP->new->canonical->encode({ id => 'evt_' . int(rand(1e9)), type => $type, data => { object => $object } });
	my $at = time + ($change{late} // 0);
	my $signature = $change{signature} // "t=$at,v1=" . hmac_sha256_hex("$at.$body", $change{key} // $key) . ',v0=x';

	$body =~ s/"acme"/"rival"/ if $change{tampered};
	return HTTP::Tiny->new(timeout => 60)->post("http://127.0.0.1:$port{example}/stripe",
		{ content => $body, headers => { 'stripe-signature' => $signature } })->{status};
}

# What gpucreditd's webhook sends; its status.
sub hook
{
	my ($type, $event, %change) = @_;
	my $body = encode_json({ type => $type, data => $event });
	my $at = time + ($change{late} // 0);
	my $key = decode_base64(substr($change{secret} // $hook->{secret}, length 'whsec_'));

	return HTTP::Tiny->new(timeout => 60)->post("http://127.0.0.1:$port{example}/gpucredit", { content => $body,
			headers => { 'webhook-id' => 'evt_1', 'webhook-timestamp' => $at,
				'webhook-signature' => 'v1,' . encode_base64(hmac_sha256("evt_1.$at.$body", $key), '') } })->{status};
}

# An event of so many hours ago.
sub event_of
{
	my ($hours, %event) = @_;

	return { event => 1e6 + $hours, at => POSIX::strftime('%Y-%m-%dT%H:%M:%S+00:00', gmtime(time - $hours * 3600)), account => '', %event };
}

sub until_true
{
	my ($condition) = @_;

	for my $i (1 .. 900) { return 1 if $condition->(); sleep 0.1 }
	return 0;
}
sub sql { return query($node, 'web', $_[0]) }
sub checkout
{
	my ($payment, $cents, %more) = @_;

	return { payment_status => 'paid', currency => 'eur', amount_total => ($cents // 'x') =~ /^-?\d+$/ ? $cents + 190 : $cents, payment_intent => $payment,
		amount_subtotal => 99999, total_details => { amount_tax => 190, amount_discount => 5, amount_shipping => 0 },
		metadata => { org => 'acme', account => 'nlp' }, %more };
}
my $credit = q{SELECT coalesce(sum(available::numeric), 0) FROM gpucredit.bucket WHERE memo LIKE 'payment %' AND org = 'acme'};

# Checkout
is(stripe('checkout.session.completed', checkout('pi_a', 1000), key => 'whsec_other'), 401, 'who has not the secret is refused');
is(stripe('checkout.session.completed', checkout('pi_a', 1000), tampered => 1), 401, 'as is what was changed on its way');
is(stripe('checkout.session.completed', checkout('pi_a', 1000), late => -1000), 401, 'and what is old');
is(stripe('checkout.session.completed', checkout('pi_a', 1000), signature => $_), $_ =~ /t=\d/ ? 401 : 400, "no signature: $_")
  foreach '', 't=x', 'v1=abc', 't=' . time, 't=' . time . ',v1=', 't=' . time . ',v1=zz';
is(sql($credit), '0', 'nothing is credited');
is(stripe('checkout.session.completed', checkout('pi_a', 1000, payment_status => 'unpaid')), 200, 'a checkout that is not paid yet');
is(sql($credit), '0', 'credits nothing');
is(stripe('checkout.session.async_payment_succeeded', checkout('pi_a', 1000)), 200, 'its payment does');
is(sql($credit), '20.000000', 'for what was paid, without the tax and what a coupon took off');
is(stripe('checkout.session.completed', checkout('pi_a', 1000)), 200, 'events that come twice');
my @at_once = map {
	my $pid = fork() // die;

	if ($pid == 0) { stripe('checkout.session.completed', checkout('pi_b', 333)); POSIX::_exit(0) }
	$pid
} 1 .. 6;
waitpid $_, 0 foreach @at_once;
is(sql($credit), '26.660000', 'or six times at once credit once');
$node->safe_psql('web', q{DELETE FROM gpucredit_billing.request; DELETE FROM gpucredit.request});
is(stripe('checkout.session.completed', checkout('pi_a', 1000)), 200, 'a repetition after all keys were forgotten');
is(sql($credit), '26.660000', 'credits nothing, either');
is(stripe('checkout.session.completed', checkout('pi_a', 5000)), 202, 'a payment with another amount');
is(stripe('checkout.session.completed', checkout('pi_c', 1000, currency => 'jpy')), 202, 'or another currency');
is(stripe('checkout.session.completed', checkout('pi_c', 1000, metadata => { org => 'nobody' })), 202, 'or for nobody');
is(stripe('checkout.session.completed', checkout('pi_c', $_)), 202, "or of $_") foreach '-5', '0', 'x', undef;
is(stripe($_, checkout('pi_c', 1000)), 200, "an event that is about something else: $_") foreach 'customer.created', '__class__';
is(sql($credit), '26.660000', 'is not credited');

# Refunds, also before what they refund
is(stripe('charge.refunded', { payment_intent => 'pi_late', refunded => JSON::PP::true }), 200, 'a refund comes before its payment');
is(stripe('checkout.session.completed', checkout('pi_late', 1000)), 200, 'which follows');
is(sql($credit), '26.660000', 'and is not credited');
is(stripe('charge.refunded', { payment_intent => 'pi_b', refunded => JSON::PP::false, amount_refunded => 5 }), 200, 'a part that is refunded');
is(sql($credit), '26.660000', 'is for people to decide');
is(stripe('charge.refunded', { payment_intent => 'pi_b', refunded => JSON::PP::true }), 200, "a refund, time $_") foreach 1, 2;
is(sql($credit), '20.000000', 'takes the credit back, once');

# The database is away
daemon_stop();
is(stripe('checkout.session.completed', checkout('pi_d', 50)), 503, 'while gpucredit is away Stripe is told to come again');
daemon_start($node, '--webhook-networks', '127.0.0.1/32');
is(stripe('checkout.session.completed', checkout('pi_d', 50)), 200, 'and does');
is(sql($credit), '21.000000', 'then it is credited');
$node->safe_psql('web', q{UPDATE gpucredit_http.token SET revoked_at = now(), revoked_by = 'fin' WHERE role = 'root_admin'});
is(stripe('checkout.session.completed', checkout('pi_e', 50)), 503, 'and while its token is not good');
$node->safe_psql('web', q{UPDATE gpucredit_http.token SET revoked_at = NULL, revoked_by = NULL WHERE role = 'root_admin'});
is(stripe('checkout.session.completed', checkout('pi_e', 50)), 200, 'until somebody has renewed it');
is(sql($credit), '22.000000', 'no payment is lost for that');

# Top-up: the line is crossed, Stripe is asked once, and its answer is credited
sub requests
{
	my ($path) = @_;

	return [] unless -e "$folder/requests";
	return [ grep { $_->{path} =~ $path } map { decode_json($_) } split /\n/, slurp_file("$folder/requests") ];
}
append_to_file("$folder/down", '');
$node->safe_psql('web', q{SELECT gpucredit_billing.set_top_up('acme', '', 90, 40.01, 2)});
sql(q{SELECT held FROM gpucredit.hold('acme', 'vision', 'spends', 30, '1 day')});
ok(until_true(sub { @{ requests(qr/payment_intents/) } > 0 }), 'who crosses the line has Stripe asked');
unlink "$folder/down";
ok(until_true(sub { my $asked = requests(qr/payment_intents/); @$asked > 1 && !-e "$folder/down" }), 'until it answers');
my $asked = requests(qr/payment_intents/)->[-1];
is_deeply($asked, { path => '/v1/payment_intents', key => 'gpucredit-top-up-1', authorization => 'Bearer sk_test', form => { amount => '2001', currency => 'eur',
			customer => 'cus_rich', payment_method => 'pm_rich', confirm => 'true', off_session => 'true', 'automatic_payment_methods[enabled]' => 'true',
			'automatic_payment_methods[allow_redirects]' => 'never', 'metadata[top_up_order]' => '1' } }, 'under a key of the order, for what it costs');
is(scalar(grep { $_->{key} ne 'gpucredit-top-up-1' } @{ requests(qr/payment_intents/) }), 0, 'and for no other');
is(stripe('payment_intent.payment_failed', { id => 'pi_1', metadata => { top_up_order => '1' }, last_payment_error => { message => "declined\n" } }), 200, 'a failure');
is(stripe('payment_intent.succeeded', { id => 'pi_1', metadata => { top_up_order => '1' } }), 200, 'and then a success, in either order');
is(stripe('payment_intent.payment_failed', { id => 'pi_1', metadata => { top_up_order => '1' } }), 200, 'or again');
is(sql(q{SELECT state, payment, (SELECT count(*) FROM gpucredit.bucket WHERE memo = 'payment pi_1') FROM gpucredit_billing.top_up_order}), 'paid|pi_1|1', 'is credited once');
is(stripe('payment_intent.succeeded', { id => 'pi_1', metadata => { top_up_order => '99' } }), 202, 'an order that nobody made is not paid');
is(stripe('payment_intent.succeeded', { id => 'pi_9', metadata => {} }), 200, 'nor is anything by a payment that is for none');

# Events of gpucredit's that are forged, late, or for a customer without a default
my %order = (org => 'rival', detail => { order => 7, credits => '10.000000' });
is(hook('balance.top_up', event_of(0, %order), secret => 'whsec_' . encode_base64('another secret', '')), 401, 'who has not the webhook\'s secret takes no payment');
is(hook('balance.top_up', event_of(0, %order), late => -1000), 401, 'nor who sends an old message again');
is(hook('balance.top_up', event_of(25, %order)), 202, 'and an event that Stripe may have forgotten is not paid twice');
is(scalar(grep { $_->{form}{customer} eq 'cus_poor' } @{ requests(qr/payment_intents/) }), 0, 'Stripe is not asked');
append_to_file("$folder/garbled", '');
is(hook('balance.top_up', event_of(20, %order)), 503, 'an answer that is none of Stripe\'s is no reason to give up');
unlink "$folder/garbled";
is(hook('balance.top_up', event_of(20, %order)), 200, 'within a day it is, again and again,') foreach 1, 2;
my %method = map { ("$_->{key} $_->{form}{payment_method}" => 1) } grep { $_->{form}{customer} eq 'cus_poor' } @{ requests(qr/payment_intents/) };
is(join(', ', sort keys %method), 'gpucredit-top-up-7 pm_saved', 'under the same key, by the saved card; that it was declined, Stripe\'s event says');
is(hook('balance.top_up', event_of(0, %order, org => 'nobody', detail => { order => 1, credits => '1' })), 202, 'who has no customer pays nothing');

# Metering
sql(q{SELECT gpucredit.reserve('acme', 'nlp', 'job', '1xH100', '1 hour')});
ok(until_true(sub { sql(q{SELECT count(*) FROM gpucredit.attempt}) > 0 || (sql(q{SELECT count(*) FROM gpucredit.heartbeat('n1'); SELECT count(*) FROM gpucredit.place()}), 0)[1] }), 'a job runs');
sql(q{SELECT billed FROM gpucredit.settle('acme', 1, 1, 'completed', '3 seconds')});
my $billed = sql(q{SELECT (billed::numeric * 1000000)::bigint FROM gpucredit.attempt});
ok(until_true(sub { @{ requests(qr/meter_events/) } > 0 }), 'what it cost is told to Stripe\'s meter');
my $metered = requests(qr/meter_events/)->[0];
is($metered->{form}{'payload[value]'}, $billed, 'to the millionth');
like($metered->{form}{identifier}, qr/^gpucredit-event-\d+$/, 'by the event\'s number, so twice is once');
is($metered->{form}{'payload[stripe_customer_id]'}, 'cus_rich', 'for its customer');
is(hook('job.ended', event_of(25, org => 'acme', detail => { billed => '1.000000' })), 202, 'what Stripe may have counted a day ago');
is(scalar(grep { $_->{form}{'payload[value]'} eq '1000000' } @{ requests(qr/meter_events/) }), 0, 'is not told again');

is(sql(q{SELECT string_agg(v::text, E'\n') FROM gpucredit_billing.verify() v}), '', 'nothing breaks an invariant');
is(sql(q{SELECT string_agg(v::text, E'\n') FROM gpucredit.verify() v WHERE v.invariant <> 'audited_key_is_kept'}), '',
	'the books balance; only the keys are missing that were removed above');
unlike(slurp_file("$folder/log"), qr/sk_test|whsec|gpc_|Traceback/, 'the log has no secrets, and nothing fell over');
{
	local %ENV = (%ENV, %env, STRIPE_KEY => '');

	is(system("python3 '$FindBin::RealBin/../../billing/examples/stripe.py' 2> '$folder/start'") >> 8, 1, 'it does not begin without its settings,');
	is(slurp_file("$folder/start"), "STRIPE_KEY is not set\n", 'and names what lacks');
}
daemon_stop();
$node->stop;
done_testing();
