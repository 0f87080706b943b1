# 090_metrics.pl: counters and gauges, and the tools that read them
#
# Debian's exporter reads the queries file, Prometheus scrapes it and judges
# the rules, promtool tries each alert, and every query of the dashboard is
# run.  All on free ports of the loopback.
#
# Alone: it measures how long calls take
# Packages: prometheus prometheus-postgres-exporter

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use HTTP::Tiny;
use JSON::PP;
use POSIX ':sys_wait_h';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $folder = "$FindBin::RealBin/../../monitoring";
my $node   = new_node('main');
my $http   = HTTP::Tiny->new(timeout => 60);
my %children;

# Without preloading there are gauges, and a metric says that there are no
# counters.
new_database($node, 'credit');
query(
	$node, 'credit', q{
	SELECT gpucredit.create_account('acme');
	SELECT gpucredit.grant_tier('acme', '', 'production_inference');
	SELECT gpucredit.register_node('default', 'n1', 'T4', 4, 16384)});
is( metric('preloaded') . ' ' . metric('devices_registered'),
	'0 4', 'without preload there are gauges, and a metric says that it is missing');
is( query(
		$node, 'credit',
		q{SELECT count(*) FROM gpucredit.metrics WHERE type <> 'gauge'}),
	'0', 'without preload there are no counters');

$node->append_conf(
	'postgresql.conf', q{
shared_preload_libraries = 'gpucredit'
gpucredit.database = 'credit'
gpucredit.node_suspect = 0
gpucredit.node_lost = 0
deadlock_timeout = 10s
});
my $began = time;
$node->restart;
is(metric('preloaded'), 1, 'with preload a metric says so');
is(metric('calls_total', operation => 'hold'), 0, 'with preload the counter of a call that nobody made is 0');

# Counts of calls.
query($node, 'credit',
	q{SELECT gpucredit.issue('acme', '', 'credit', 100, 'paid');
	SELECT gpucredit.set_price('T4', 1);
	SELECT gpucredit.drain('n1', 'test')});
query($node, 'credit', q{SELECT gpucredit.hold('acme', '', 'h1', 10, '1 h')})
  for 1 .. 3;
query($node, 'credit', q{SELECT gpucredit.hold('acme', '', 'h2', 1000, '1 h')});
query_fails($node, 'credit', q{SELECT gpucredit.hold('acme', '', 'h1', 11, '1 h')},
	'UC201', 'a key that is used with other arguments is refused');
query_fails($node, 'credit', q{SELECT gpucredit.hold('nobody', '', 'h1', 11, '1 h')},
	'UC001', 'a hold of an unknown organisation is refused');
query($node, 'credit',
	q{BEGIN; SELECT gpucredit.hold('acme', '', 'h3', 1, '1 h'); ROLLBACK});
my %hold = (operation => 'hold');
is(metric('calls_total', %hold), 7, 'calls are counted, whatever becomes of them');
is(metric('replays_total', %hold), 2, 'replayed calls are counted');
is(metric('denials_total', %hold, reason => 'insufficient_credits'),
	1, 'denied calls are counted by reason');
is(metric('errors_total', %hold, sqlstate => 'UC201'), 1, 'errors are counted by SQLSTATE');
is(metric('errors_total', %hold, sqlstate => 'UC001'), 1, 'errors of another SQLSTATE are counted by themselves');
is(metric('internal_errors_total'), 0, 'none of the errors is of the machine or of stored data');
query_fails($node, 'credit', q{BEGIN;
	CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no room today' USING ERRCODE = 'disk_full'; END $$;
	CREATE TRIGGER fail BEFORE UPDATE ON gpucredit.hold
		FOR EACH ROW EXECUTE FUNCTION public.full();
	SELECT gpucredit.capture('acme', min(hold), 'c', 1) FROM gpucredit.hold},
	'53100', 'a call fails because the disk is full');
is(metric('internal_errors_total'), 1, 'the error of the machine is counted');
is(metric('call_seconds_count', %hold), 7, 'the histogram of durations has all calls');
is(metric('call_seconds_bucket', %hold, le => '+Inf'), 7, 'the last bucket of the histogram has all calls');
is( query(
		$node, 'credit', q{
		SELECT bool_and(value >= before) FROM (SELECT value,
			lag(value, 1, 0) OVER (ORDER BY (labels ->> 'le')::float8) AS before
		FROM gpucredit.metrics WHERE name = 'gpucredit_call_seconds_bucket'
			AND labels ->> 'operation' = 'hold') b}),
	't', 'the buckets of the histogram never fall');
query($node, 'credit',
	q{SELECT gpucredit.reserve('acme', '', 'r', '1xT4', '500 h',
		tier => 'production_inference')});
is( metric('denials_total', operation => 'reserve',
		reason => 'insufficient_credits'),
	1, 'denials are counted for each operation by itself');

# What no credit covered.
query($node, 'credit', q{SELECT gpucredit.create_account('owes'),
	gpucredit.issue('owes', '', 'credit', 2, 'paid')});
query($node, 'credit', q{SELECT gpucredit.hold('owes', '', 'h', 1, '1 h')});
query($node, 'credit', q{SELECT gpucredit.capture('owes', max(hold), 'c', 4.5, overrun => true)
	FROM gpucredit.hold WHERE org = 'owes'}) for 1 .. 2;
is( metric('uncollected_credits_total', operation => 'capture',
		reason => 'no_credit'),
	2.5, 'what no credit covered is counted, once for a call and its replay');
is(metric('spent_credits_total', operation => 'capture'), 2, 'what was spent is counted, once for a call and its replay');
query($node, 'credit', q{SELECT gpucredit.refund_hold('owes', max(hold), 'r', 0.25, 'test')
	FROM gpucredit.hold WHERE org = 'owes'}) for 1 .. 2;
is(metric('refunded_credits_total', operation => 'refund_hold'), 0.25, 'what was refunded is counted, once for a call and its replay');
is(metric('spent_credits_total'), 2, 'a refund does not lower what was spent');

# Probing for others' accounts is counted.
query($node, 'credit', q{CREATE ROLE curious IN ROLE gpucredit_tenant});
query_fails($node, 'credit', q{SET ROLE curious; SELECT gpucredit.capture('acme', 1, 'c', 1)},
	'42501', 'a tenant of nothing is refused another\'s hold');
query($node, 'credit', q{SELECT gpucredit.bind_tenant('curious', 'acme')});
query_fails($node, 'credit', q{SET ROLE curious; SELECT gpucredit.capture('other', 1, 'c', 1)},
	'UC001', "a tenant is refused a hold of another organisation");
is_deeply([ map { metric('errors_total', operation => 'capture', sqlstate => $_) } qw(42501 UC001) ],
	[ 1, 1 ], 'attempts to reach others\' holds are counted');

# A call's duration includes its wait for a lock.
is(metric('lock_waits_total', %hold), 0, 'before any wait the counter of lock waits is 0');
my $holder = connect_to($node, 'credit');
$holder->begin_work;
$holder->do(q{SELECT gpucredit.hold('acme', '', 'first', 1, '1 h')});
my $long = long_holds();
my ($waiter) = in_parallel(
	1,
	sub {
		connect_to($node, 'credit')
		  ->do(q{SELECT gpucredit.hold('acme', '', 'second', 1, '1 h')});
	});
$node->poll_query_until('credit', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND backend_type = 'client backend'});
sleep(0.6);
$holder->commit;
wait_for_children($waiter);
is(metric('lock_waits_total', %hold), 1, 'a call that waited for a lock is counted');
is(long_holds() - $long, 1, 'the duration of a call has its wait for the lock');

# A call whose session is ended counts, too.
$holder->begin_work;
$holder->do(q{SELECT gpucredit.hold('acme', '', 'third', 1, '1 h')});
($waiter) = in_parallel(
	1,
	sub {
		my $dbh = connect_to($node, 'credit');
		eval { $dbh->do(q{SELECT gpucredit.hold('acme', '', 'fourth', 1, '1 h')}) };
	});
$node->poll_query_until('credit', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND backend_type = 'client backend'});
my $calls = metric('calls_total', %hold);
query($node, 'credit', q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND backend_type = 'client backend'});
wait_for_children($waiter);
is(metric('calls_total', %hold) - $calls, 1, 'a call whose session was ended is counted');
is(metric('errors_total', %hold, sqlstate => '57P01'), 1, 'a call whose session was ended counts as an error');
$holder->rollback;
$holder->disconnect;

# Counts are exact, however many sessions count.
my $before = metric('calls_total', operation => 'release');
wait_for_children(
	in_parallel(
		8,
		sub {
			my $dbh = connect_to($node, 'credit');

			foreach my $n (1 .. 200)
			{
				eval { $dbh->do(q{SELECT gpucredit.release('acme', 0, 'x')}) };
			}
		}));
is(metric('calls_total', operation => 'release') - $before,
	1600, 'eight sessions at once count every call');
is(metric('errors_total', operation => 'release', sqlstate => 'UC003'),
	1600, 'eight sessions at once count every error');

# Gauges of a waiting and a running job, and their holds.
my $waiting = reserve('waiting');
sleep(1.1);
is(metric('jobs_open', state => 'queued'), 1, 'a job that waits is in the gauge of queued jobs');
cmp_ok(metric('queue_oldest_seconds'), '>=', 1, 'the gauge of the oldest wait has at least its second');
is(metric('nodes_registered', state => 'draining'), 1, 'the draining node is in the gauge of draining nodes');
is(metric('devices_healthy'), 0, 'devices of a draining node are not healthy');
query($node, 'credit', q{SELECT gpucredit.resume('n1');
	SELECT gpucredit.heartbeat('n1')});
$node->poll_query_until('credit',
	'SELECT count(*) = 1 FROM gpucredit.attempt');
is(metric('devices_allocated'), 0.5, 'the half device that a job has is allocated');
like(query($node, 'credit', q{BEGIN; SELECT gpucredit.drain('n1', 'x');
	SELECT string_agg(substr(name, 19) || ' ' || value, ', ' ORDER BY name)
	FROM gpucredit.metrics WHERE name ~ '_devices_(allocated|healthy|usable)';
	ROLLBACK}), qr/^allocated 0.5, healthy 0, usable 1$/m,
	'devices are usable if they are healthy or in use');
like(query($node, 'credit', q{BEGIN;
	SELECT gpucredit.reclaim('n1', '2 min');
	CREATE FUNCTION pg_temp.gauges() RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(concat_ws(' ', substr(name, 11), labels ->> 'state', value), ', ' ORDER BY name)
		FROM gpucredit.metrics
		WHERE name ~ '^gpucredit_(devices_(healthy|usable)|nodes_registered)$' $$;
	SELECT pg_temp.gauges();
	SELECT set_config('gpucredit.clock', (now() + '3 min')::text, true);
	SELECT pg_temp.gauges();
	SELECT gpucredit.resume('n1');
	SET LOCAL gpucredit.node_suspect = '1 min';
	SELECT pg_temp.gauges();
	ROLLBACK}), qr/^devices_healthy\ 0,\ devices_usable\ 1,\ nodes_registered\ reclaimed\ 1\n.*
		^devices_healthy\ 0,\ devices_usable\ 1,\ nodes_registered\ gone\ 1\n.*
		^devices_healthy\ 4,\ devices_usable\ 1,\ nodes_registered\ suspect\ 1\Z/msx,
	'of reclaimed, gone and silent nodes only devices in use are usable');
is(metric('jobs_open', state => 'starting'), 1, 'a job that was started is in the gauge of starting jobs');
is(metric('holds_open', kind => 'job'), 1, 'the hold of the job is in the gauge of open holds');
is(metric('holds_credits', kind => 'job'), 0.5, 'the gauge of held credit has half a credit for the job');
ok(until_true(sub { metric('scheduler_started_total') >= 1 }), 'the worker started it');
cmp_ok(metric('scheduler_lag_seconds'), '<', time - $began, 'the lag of the scheduler is at most the time since the server came up');
is(metric('scheduler_interval_seconds'), 1, 'the interval of the scheduler is a second');
query(
	$node, 'credit', q{
	SELECT gpucredit.settle('acme', job, 1, 'preempted')
	FROM gpucredit.attempt;
	SELECT gpucredit.set_alert('acme', '', 1000)});
$node->poll_query_until('credit',
	'SELECT count(*) = 1 FROM gpucredit.attempt WHERE ended_at IS NULL')
  or die 'it does not start again';
is(metric('low_balances'), 1, 'an account below its alert is counted as low');
cmp_ok(metric('low_balance_credits', org => 'acme', account => ''),
	'<', 100, 'the gauge of low balances has the balance of the account');

# A pool whose cycles are blocked shows beside others.
query($node, 'credit', q{SELECT gpucredit.create_pool('other')});
$holder = connect_to($node, 'credit');
$holder->begin_work;
$holder->do(q{SELECT cycle FROM gpucredit.pool WHERE pool = 'default' FOR NO KEY UPDATE});
ok(until_true(sub { metric('scheduler_lag_seconds') >= 3 }, time + 60),
	'a pool without a cycle is late');
$holder->rollback;
$holder->disconnect;
ok(until_true(sub { metric('scheduler_lag_seconds') < 3 }), 'a pool that has had its cycle is not late');

# A monitoring login needs pg_monitor only, and sees nothing else.
query($node, 'credit',
	'CREATE ROLE monitor LOGIN IN ROLE pg_monitor; CREATE ROLE nobody LOGIN');
like(as('monitor', 'SELECT gpucredit.metrics_text()'),
	qr/^gpucredit_calls_total\{operation="hold"\} 12$/m, 'pg_monitor may read');
isnt((as('monitor', 'SELECT * FROM gpucredit.account'))[0],
	0, 'pg_monitor may read no table');
isnt((as('nobody', 'SELECT gpucredit.metrics_text()'))[0],
	0, 'a login without pg_monitor may not read the metrics');

# Prometheus accepts the text format.
my $text = query($node, 'credit', 'SELECT gpucredit.metrics_text()');
my $file = $node->basedir . '/metrics.txt';
append_to_file($file, "$text\n");
command_ok([ 'sh', '-c', "promtool check metrics <'$file'" ],
	'promtool likes the text');
command_ok([ 'promtool', 'check', 'rules', "$folder/alerts.yml" ],
	'and the rules');
command_ok([ 'promtool', 'test', 'rules', "$folder/alerts_test.yml" ],
	'each alert fires when it should');

# A label may contain whatever a name may.
query($node, 'credit',
	q{SELECT gpucredit.create_pool(E'a"b\\\\c{d}=,');
	SELECT gpucredit.register_node(E'a"b\\\\c{d}=,', 'odd', 'T4', 1, 16384)});
append_to_file("$file.odd",
	query($node, 'credit', 'SELECT gpucredit.metrics_text()') . "\n");
command_ok([ 'sh', '-c', "promtool check metrics <'$file.odd'" ],
	'odd names are escaped');

# The exporter has the same names, and values.
my $exporter = PostgreSQL::Test::Cluster::get_free_port();
my $dsn = sprintf 'host=%s port=%d user=monitor dbname=credit sslmode=disable',
  $node->host, $node->port;
start_child(
	'exporter',
	{ DATA_SOURCE_NAME => $dsn },
	'prometheus-postgres-exporter',
	"--web.listen-address=127.0.0.1:$exporter",
	"--extend.query-path=$folder/postgres_exporter.yaml",
	'--disable-default-metrics',
	'--disable-settings-metrics');
# The background worker makes calls meanwhile: those of every second are left
# out by counts_of_calls(), and others are made now and then.  So the page that
# is compared was scraped between two readings that are equal.
my ($scraped, $scraped_counts, $counts);
until_true(
	sub {
		$counts         = counts_of_calls(query($node, 'credit', 'SELECT gpucredit.metrics_text()'));
		$scraped        = wait_for_page("http://127.0.0.1:$exporter/metrics");
		$scraped_counts = counts_of_calls($scraped);
		return $counts eq
		  counts_of_calls(query($node, 'credit', 'SELECT gpucredit.metrics_text()'));
	}) or die "calls were made during each scrape of three minutes\n";
is(join("\n", names_of($scraped)),
	join("\n", names_of(query($node, 'credit', 'SELECT gpucredit.metrics_text()'))),
	'the exporter has every metric');
is($scraped_counts, $counts, 'the exporter has the same labels and values')
  or diag($scraped);
like($scraped, qr/^gpucredit_call_seconds_bucket\{operation="hold",[^}]*le="\+Inf"\} 12$/m,
	'the exporter has a histogram as a histogram');
unlike($scraped, qr/^pg_exporter_user_queries_load_error\S* [1-9]/m,
	'the exporter has read the file of queries without an error');

# Prometheus scrapes it, judges the rules, and answers the dashboard.
my $prometheus = PostgreSQL::Test::Cluster::get_free_port();
my $config = $node->basedir . '/prometheus.yml';
append_to_file($config, <<"END");
global:
  scrape_interval: 2s
  evaluation_interval: 1s
rule_files:
  - $folder/alerts.yml
scrape_configs:
  - job_name: gpucredit
    static_configs:
      - targets: ['127.0.0.1:$exporter']
END
command_ok([ 'promtool', 'check', 'config', $config ], 'the configuration');
start_child('prometheus', {}, 'prometheus', "--config.file=$config",
	'--storage.tsdb.path=' . $node->basedir . '/tsdb',
	"--web.listen-address=127.0.0.1:$prometheus");
wait_for_page("http://127.0.0.1:$prometheus/-/ready");
ok( until_true(
		sub {
			my $r = ask_prometheus('count_over_time(gpucredit_preloaded[5m])');
			return @$r && $r->[0]{value}[1] >= 4;
		}),
	'Prometheus scrapes it');
ok( until_true(
		sub {
			return scalar
			  grep { $_->{metric}{alertname} eq 'GpucreditLowBalance' }
			  @{ ask_prometheus('ALERTS') };
		}),
	'an alert fires');
query($node, 'credit', 'SELECT gpucredit.set_alert(a.org, a.account, NULL) FROM gpucredit.account a');
ok( until_true(
		sub {
			return !grep { $_->{metric}{alertname} eq 'GpucreditLowBalance' }
			  @{ ask_prometheus('ALERTS{alertstate="firing"}') };
		}),
	'and ends with its cause');
query($node, 'credit', q{SELECT gpucredit.set_alert(a.org, a.account, 1000) FROM gpucredit.account a;
	SELECT gpucredit.drain('n1', 'test')});
reserve('for the dashboard');
ok(until_true(sub { @{ ask_prometheus('gpucredit_queue_oldest_seconds') } }),
	'a queue for the dashboard');
query($node, 'credit', q{SET gpucredit.usage_interval = 1;
	SELECT gpucredit.meter('acme', job, attempt, '1 s', utilization => 0.5)
	FROM gpucredit.attempt WHERE ended_at IS NULL;
	CREATE ROLE grafana LOGIN IN ROLE gpucredit_auditor});
my $deadline = time + 180;
my %business;
foreach my $panel (@{ decode_json(slurp_file("$folder/grafana.json"))->{panels} })
{
	foreach my $target (@{ $panel->{targets} })
	{
		my $expression = $target->{expr};

		if ($target->{datasource}{type} eq 'postgres')
		{
			my $rows = (as('grafana', as_grafana($target->{rawSql})))[1];

			cmp_ok(scalar split(/\n/, $rows), '>=', 1, "dashboard: $panel->{title}")
			  or diag($target->{rawSql});
			$business{ $panel->{title} } = $rows;
			next;
		}
		$expression =~ s/\$__rate_interval/5m/g;
		$expression =~ s/\$pool/.*/g;
		my $empty_ok = $expression =~ /cron_job/;

		ok( until_true(
				sub {
					my $result = eval { ask_prometheus($expression) };

					return defined $result && ($empty_ok || @$result);
				}, $deadline),
			"dashboard: $panel->{title}: $target->{legendFormat}")
		  or diag($expression, $@);
	}
}

my $today = query($node, 'credit', q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')});
like($business{'Net spend by organisation and day'}, qr/^\Q$today\E.*\|owes\|1.750000$/m,
	'the dashboard has what organisations have spent today');
like($business{'Net spend by GPU type'}, qr/^holds without a job\|1.750000$/m, 'the dashboard has what was spent by GPU type');
like($business{'Days left'}, qr/^owes\|0.1\|/m, 'the dashboard has how long the credit lasts');
like($business{'Utilisation by team'}, qr/\|acme\|0.5$/m, 'the dashboard has how busy a team\'s devices are');
like($business{'Devices by team, now'}, qr/^acme\|0.5/m, 'the dashboard has how many devices a team uses');

stop_child($_) foreach keys %children;

# A restart resets counters, as Prometheus expects.
cmp_ok(metric('calls_total', operation => 'release'), '>=', 1600, 'before a restart the counter has what was counted');
$node->restart;
is_deeply(
	[ map { metric($_, operation => 'release') } qw(calls_total errors_total) ],
	[ 0, 'none' ], 'counters begin at 0 after a restart');
verify_empty($node, 'credit');
$node->stop;
done_testing();

# The sum of a metric's samples that have these labels; "none" without any.
sub metric
{
	my ($name, %labels) = @_;
	my $json = encode_json(\%labels);

	return query($node, 'credit',
		"SELECT coalesce(sum(value)::text, 'none') FROM gpucredit.metrics
		WHERE name = 'gpucredit_$name' AND labels @> '$json'");
}

# Holds that took longer than half a second.
sub long_holds
{
	return metric('call_seconds_count', %hold)
	  - metric('call_seconds_bucket', %hold, le => '0.5');
}

# A query as Grafana sends it: without its macros.
sub as_grafana
{
	my ($sql) = @_;
	my ($from, $to) = ("(now() - interval '6 h')", 'now()');

	$sql =~ s/\$__timeGroupAlias\((.*?), \$__interval\)/floor(extract(epoch FROM $1) \/ 300) * 300 AS "time"/;
	$sql =~ s/\$__timeFilter\((.*?)\)/$1 BETWEEN $from AND $to/;
	$sql =~ s/\$__timeFrom\(\)/$from/g;
	$sql =~ s/\$__timeTo\(\)/$to/g;
	unlike($sql, qr/\$/, 'no macro of Grafana is left in the query') or diag($sql);
	return $sql;
}

# Half a device for an hour.
sub reserve
{
	return query($node, 'credit',
		"SELECT job FROM gpucredit.reserve('acme', '', '$_[0]', '0.5xT4', '1 h')"
	);
}

# What a statement returns to a login; in a list, its status first.
sub as
{
	my ($role, $sql) = @_;
	my ($status, $out) = $node->psql('credit', $sql,
		connstr => $node->connstr('credit') . " user=$role");

	return wantarray ? ($status, $out) : $out;
}

# The names of the metrics on a page, ours alone.
sub names_of
{
	my %names = map { $_ => 1 } $_[0] =~ /^(gpucredit_\w+)[ {]/mg;

	return sort keys %names;
}

# The samples of a metric on a page, without what the exporter adds, and
# without what the background worker does meanwhile.
sub counts_of_calls
{
	my ($page) = @_;

	$page =~ s/,?server="[^"]*"//g;
	return join(' ',
		sort grep { !/"(?:place|check_nodes|reap_holds)"/ }
		  $page =~ /^(gpucredit_calls_total\S* \S+)$/mg);
}

sub start_child
{
	my ($name, $env, @command) = @_;
	my $log = "$PostgreSQL::Test::Utils::log_path/090_metrics_$name.log";
	my $pid = fork();

	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		@ENV{ keys %$env } = values %$env;
		open(STDIN,  '<',  '/dev/null') or POSIX::_exit(1);
		open(STDOUT, '>',  $log)        or POSIX::_exit(1);
		open(STDERR, '>&', \*STDOUT)    or POSIX::_exit(1);
		exec(@command) or POSIX::_exit(1);
	}
	$children{$name} = $pid;
	return;
}

sub stop_child
{
	my $pid = delete $children{ $_[0] } or return;

	kill('TERM', $pid);
	foreach my $turn (1 .. 100)
	{
		return if waitpid($pid, WNOHANG) == $pid;
		sleep(0.1);
	}
	kill('KILL', $pid);
	waitpid($pid, 0);
	return;
}

# Also if a test dies.
END
{
	my $status = $?;

	stop_child($_) foreach keys %children;
	$? = $status;
}

sub wait_for_page
{
	my ($url) = @_;
	my $page;

	until_true(
		sub {
			my $response = $http->get($url);
			$page = $response->{content};
			return $response->{success} && $page ne '';
		}) or die "$url does not answer: $page\n";
	return $page;
}

# What a query of Prometheus returns.
sub ask_prometheus
{
	my ($expression) = @_;
	my $response = $http->post_form(
		"http://127.0.0.1:$prometheus/api/v1/query",
		{ query => $expression });
	my $answer = decode_json($response->{content});

	die "$response->{content}\n" unless $answer->{status} eq 'success';
	return $answer->{data}{result};
}

sub until_true
{
	my ($function, $until) = @_;

	$until ||= time + 180;

	until ($function->())
	{
		return 0 if time > $until;
		sleep(0.2);
	}
	return 1;
}
