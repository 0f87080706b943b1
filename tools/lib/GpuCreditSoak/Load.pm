package GpuCreditSoak::Load;

# Load.pm - the processes that call as applications, tenants and operators do
#
# Each process keeps its own pace: a call that is late does not delay those of
# another process, and after a stall the calls that were missed are made up.

use strict;
use warnings;
use Exporter 'import';
use GpuCreditSoak::Db;
use GpuCreditSoak::World;
use Time::HiRes qw(time);

our @EXPORT = qw(submit_background submitter reader callers_holds upkeep_task
  reporter scraper disturber);

# Calls a function $rate times a second until $$stop.
sub at_rate
{
	my ($stop, $rate, $function) = @_;
	my $next = time + rand(1 / $rate);

	until ($$stop)
	{
		my $wait = $next - time;

		if ($wait > 0)
		{
			select(undef, undef, undef, $wait > 0.2 ? 0.2 : $wait);
			next;
		}
		$next += 1 / $rate;
		$function->();
	}
	return;
}

# Submits the jobs that run all the time, and those that wait all the time.
sub submit_background
{
	my ($world) = @_;
	my $db = connect_db();

	$db->do('SET synchronous_commit = off');
	foreach my $what ([ 'runs', $world->{running} ], [ 'waits', $world->{waiting} ])
	{
		my ($name, $count) = @$what;

		for (my $first = 0; $first < $count; $first += 1000)
		{
			my $last = ($first + 1000 < $count ? $first + 1000 : $count) - 1;
			my ($granted) = $db->selectrow_array(q{
				SELECT count(*) FILTER (WHERE r.status = 'granted')
				FROM generate_series($1::int, $2::int) n,
					LATERAL (SELECT CASE WHEN n % 4 = 0 THEN 'big' || n / 4 % $3::int
							ELSE 'small' || n % $4::int END AS org) o,
					LATERAL gpucredit.reserve(o.org, 'p' || n % 8 || '/u' || n % 10,
						$5::text || n, '1xH100', '20 hours', 'standard_training',
						CASE n % $6::int WHEN 0 THEN 'default' ELSE 'pool' || n % $6::int END,
						max_retries => 100) r},
				undef, $first, $last, @$world{qw(big small)}, $name, $world->{pools});

			die "of the jobs $first to $last that are to be there from the start $granted were granted\n"
			  if $granted != $last - $first + 1;
		}
	}
	$db->disconnect;
	return;
}

# Submits jobs of a kind of organisation.  They run for so many seconds on one
# A100.  One in 50 is cancelled at once.
sub submitter
{
	my ($out, $stop, $world, $kind, $rate, $seconds) = @_;
	my $calls = GpuCreditSoak::Db->new($out);
	my $n     = 0;

	at_rate($stop, $rate, sub {
		my ($org, $key) = (organisation($world, $kind), "soak $$ " . $n++);
		my $rows = $calls->call('reserve', $kind, q{
			SELECT status, reason, job FROM gpucredit.reserve(?, ?, ?, '1xA100', '10 min',
				'standard_training', ?, spec => ?)},
			$org, account_of($world, $kind), $key,
			GpuCreditSoak::World::pool_name(int(rand($world->{pools}))),
			sprintf('{"seconds": %.1f, "kind": "%s", "at": %.6f}', $seconds, $kind, time));

		$calls->call('cancel', $kind, 'SELECT * FROM gpucredit.cancel(?, ?, ?)',
			$org, $rows->[0]{job}, "$key cancel")
		  if $rows && $rows->[0]{job} && $n % 50 == 0;
	});
	return;
}

# What tenants look at, each as the login of its organisation.
my %reads = (
	'balance of an organisation' => q{SELECT * FROM gpucredit.balance($1) WHERE $2::text IS NOT NULL},
	'balance of a user'          => q{SELECT * FROM gpucredit.balance($1, $2)},
	'budgets of a user'          => q{SELECT * FROM gpucredit.budgets($1, $2)},
	'newest jobs'                => q{SELECT job, state, request FROM gpucredit.jobs
		WHERE org = $1 AND account = $2 ORDER BY job DESC LIMIT 20},
	'explain of a job'           => q{SELECT e.* FROM (SELECT max(job) AS job
			FROM gpucredit.job WHERE org = $1 AND $2::text IS NOT NULL
			HAVING max(job) IS NOT NULL) j, LATERAL gpucredit.explain($1, j.job) e});

sub reader
{
	my ($out, $stop, $world, $kind, $rate) = @_;
	my $calls = GpuCreditSoak::Db->new($out, user => "soak_$kind");
	my $org   = { hot => 'big0', big => 'big1', small => 'small0' }->{$kind};
	my @names = sort keys %reads;
	my $n     = 0;

	at_rate($stop, $rate, sub {
		my $name = $names[ $n++ % @names ];

		$calls->call($name, $kind, $reads{$name}, $org, account_of($world, $kind));
	});
	return;
}

# An application with its own scheduler: holds, of which one in ten is left to
# die, and captures.
sub callers_holds
{
	my ($out, $stop, $world, $rate) = @_;
	my $calls = GpuCreditSoak::Db->new($out);
	my $n     = 0;

	at_rate($stop, $rate, sub {
		my $kind = (qw(hot big small small))[ $n++ % 4 ];
		my ($org, $key) = (organisation($world, $kind), "hold $$ $n");
		my $rows = $calls->call('hold', $kind,
			q{SELECT status, hold FROM gpucredit.hold(?, ?, ?, 0.5, '30 s')},
			$org, account_of($world, $kind), $key);

		$calls->call('capture', $kind,
			'SELECT captured FROM gpucredit.capture(?, ?, ?, 0.25)',
			$org, $rows->[0]{hold}, "$key capture")
		  if $rows && $rows->[0]{hold} && $n % 10;
	});
	return;
}

# A task of upkeep, at each full minute as pg_cron calls it.
sub upkeep_task
{
	my ($out, $stop, $name, $sql) = @_;
	my $calls = GpuCreditSoak::Db->new($out);
	my ($isolation, $statement) = $sql =~ /^(SET TRANSACTION [^;]*);\s*(.*)$/s
	  ? ($1, $2) : ('', $sql);

	$calls->handle->do('SET default_transaction_isolation = "read committed"') if $isolation;
	at_rate($stop, 1 / 60, sub { $calls->call("upkeep: $name", '', $statement) });
	return;
}

# The reports of an operator, one a minute or as fast as they end.
my @reports = (
	[ 'burn_rate()',    'SELECT count(*) FROM gpucredit.burn_rate()' ],
	[ 'report_html(big1)', q{SELECT length(gpucredit.report_html('big1'))} ],
	[ 'top_spenders()', 'SELECT count(*) FROM gpucredit.top_spenders()' ],
	[ 'fair_share()',   'SELECT count(*) FROM gpucredit.fair_share()' ],
	[ 'report_html()',  'SELECT length(gpucredit.report_html())' ]);

sub reporter
{
	my ($out, $stop) = @_;
	my $calls = GpuCreditSoak::Db->new($out);
	my $n     = 0;

	at_rate($stop, 1 / 60, sub {
		my ($name, $sql) = @{ $reports[ $n++ % @reports ] };

		$calls->call("report: $name", '', $sql);
	});
	return;
}

# Prometheus.
sub scraper
{
	my ($out, $stop) = @_;
	my $calls = GpuCreditSoak::Db->new($out);

	at_rate($stop, 1 / 15, sub {
		$calls->call('scrape of metrics', '', 'SELECT count(*) FROM gpucredit.metrics');
	});
	return;
}

# A transaction that stays open: "select" with a query in this database that
# does not end, "snapshot" idle in another database.
sub disturber
{
	my ($out, $stop, $what) = @_;
	my $calls = GpuCreditSoak::Db->new($out,
		$what eq 'snapshot' ? (dbname => 'postgres') : ());
	my $db = $calls->handle;

	$db->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$db->do('SELECT count(*) FROM pg_class');
	until ($$stop)
	{
		$what eq 'select' ? $db->do('SELECT pg_sleep(1) FROM pg_class LIMIT 1') : sleep(1);
	}
	$db->do('ROLLBACK');
	return;
}

1;
