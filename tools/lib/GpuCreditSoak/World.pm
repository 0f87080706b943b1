package GpuCreditSoak::World;

# World.pm - what the database of a scale contains, and how it is filled
#
# Everything is made by the public functions, by two processes at once.  Names
# follow from numbers, so that every process of the load knows them:
#
#   organisations   big0 (the hot one) to big3, small0, small1, ...
#   accounts        p0, p1, ... (projects), p0/u0, p0/u1, ... (users)
#   pools           default, pool1, ...; nodes n0, n1, ...; node n is of pool
#                   n modulo the number of pools
#
# Of each pool's nodes one in six has A100, the others H100.  Jobs that run all
# the time fill the H100; jobs that wait all the time ask for H100, too.  The
# jobs of the load run on A100, of which there are always some free.

use strict;
use warnings;
use Exporter 'import';
use GpuCreditSoak::Db;
use POSIX ();

our @EXPORT = qw(world build_world organisation account_of);

my $GPUS = 8;					# of a node

# The figures of a scale.
sub world
{
	my ($scale) = @_;
	my %pools = (1 => 2, 10 => 6, 100 => 12);
	my $nodes = 60 * $scale;
	my %world = (
		scale          => $scale,
		big            => 4,
		big_users      => 500 * $scale,
		big_projects   => 10 * sqrt($scale) < 10 ? 10 : int(10 * sqrt($scale)),
		small          => 100 * $scale - 4,
		small_users    => 80,
		small_projects => 8,
		pools          => $pools{$scale},
		nodes          => $nodes,
		waiting        => 170 * $scale);

	$world{a100}    = scalar grep { is_a100(\%world, $_) } 0 .. $nodes - 1;
	$world{running} = $GPUS * ($nodes - $world{a100});
	$world{free}    = $GPUS * $world{a100};
	return \%world;
}

sub is_a100
{
	my ($world, $node) = @_;

	return int($node / $world->{pools}) % 6 == 0;
}

sub pool_name { return $_[0] == 0 ? 'default' : "pool$_[0]"; }

# A random organisation of a kind.
sub organisation
{
	my ($world, $kind) = @_;

	return 'big0' if $kind eq 'hot';
	return 'big' . (1 + int(rand($world->{big} - 1))) if $kind eq 'big';
	return 'small' . int(rand($world->{small}));
}

# A random user of an organisation of a kind.
sub account_of
{
	my ($world, $kind) = @_;
	my $size = $kind eq 'small' ? 'small' : 'big';
	my ($users, $projects) = @$world{ "${size}_users", "${size}_projects" };

	return sprintf('p%d/u%d', int(rand($projects)), int(rand(int($users / $projects))));
}

# Fills the database, up to the accounts and nodes.  Jobs come when agents live.
sub build_world
{
	my ($world) = @_;
	my $db = connect_db();
	my @chunks = (
		(map { [ 'big', $_, $_ ] } 0 .. $world->{big} - 1),
		map { [ 'small', $_ * 50, _least($_ * 50 + 49, $world->{small} - 1) ] }
		  0 .. int(($world->{small} - 1) / 50));

	$db->do(q{SELECT gpucredit.create_pool(p, '{"reclaim": false, "consolidate": false}')
		FROM unnest(?::text[]) p}, undef,
		[ map { pool_name($_) } 0 .. $world->{pools} - 1 ]);
	$db->do(q{SELECT gpucredit.set_price('H100', 4), gpucredit.set_price('A100', 2)});
	_in_parallel(2, \@chunks, sub { _organisations($_[0], $world, @{ $_[1] }) });
	$db->do(q{SELECT count(gpucredit.register_node(
			CASE n % $1::int WHEN 0 THEN 'default' ELSE 'pool' || n % $1::int END, 'n' || n,
			CASE n / $1::int % 6 WHEN 0 THEN 'A100' ELSE 'H100' END, $2::int, 81920, 96000,
			1048576, leaf => 'leaf' || n / 32))
		FROM generate_series(0, $3::int - 1) n}, undef,
		@$world{'pools'}, $GPUS, $world->{nodes});

	# tenants read as themselves
	foreach my $kind (qw(hot big small))
	{
		my $org = { hot => 'big0', big => 'big1', small => 'small0' }->{$kind};

		$db->do("CREATE ROLE soak_$kind LOGIN IN ROLE gpucredit_tenant");
		$db->do("SELECT gpucredit.bind_tenant('soak_$kind', '$org')");
	}
	$db->disconnect;
	return;
}

# Organisations of a size, from number FIRST to LAST: accounts, buckets, budgets.
sub _organisations
{
	my ($db, $world, $size, $first, $last) = @_;
	my ($users, $projects) = @$world{ "${size}_users", "${size}_projects" };
	my $each = int($users / $projects);
	my @bind = ($size, $first, $last);
	my $of = q{generate_series($2::int, $3::int) o};

	foreach my $sql (
		"SELECT count(gpucredit.create_account(\$1::text || o)) FROM $of",
		"SELECT count(gpucredit.create_account(\$1::text || o, 'p' || p))
			FROM $of, generate_series(0, $projects - 1) p",
		"SELECT count(gpucredit.create_account(\$1::text || o, 'p' || p || '/u' || u))
			FROM $of, generate_series(0, $projects - 1) p, generate_series(0, $each - 1) u",
		# what pays in the end
		"SELECT count(gpucredit.issue(\$1::text || o, '', 'start', 1000000000)) FROM $of",
		# each user has a grant, each second one a promotion; some of those expire
		# while the load runs
		"SELECT count(gpucredit.issue(\$1::text || o, 'p' || p || '/u' || u,
				'grant ' || p || ' ' || u, 5, 'grant', valid_for => '60 days'))
			FROM $of, generate_series(0, $projects - 1) p, generate_series(0, $each - 1) u",
		"SELECT count(gpucredit.issue(\$1::text || o, 'p' || p || '/u' || u,
				'promo ' || p || ' ' || u, 1, 'promo',
				valid_for => CASE u % 20 WHEN 0 THEN interval '1 s' * (60 + 3600 * random())
					ELSE '30 days' END, priority => 50))
			FROM $of, generate_series(0, $projects - 1) p,
				generate_series(0, $each - 1, 2) u",
		# a hard budget of the organisation and of each project, and of some users
		"SELECT count(gpucredit.set_budget(\$1::text || o, '', 900000000)) FROM $of",
		"SELECT count(gpucredit.set_budget(\$1::text || o, 'p' || p, 100000000))
			FROM $of, generate_series(0, $projects - 1) p",
		"SELECT count(gpucredit.set_budget(\$1::text || o, 'p' || p || '/u' || u, 1000000))
			FROM $of, generate_series(0, $projects - 1) p, generate_series(0, $each - 1, 25) u")
	{
		$db->do($sql, undef, @bind[ 0 .. 2 ]);
	}
	return;
}

# Calls a function for each item, in so many processes; dies if one failed.
sub _in_parallel
{
	my ($n, $items, $function) = @_;
	my @pids;

	foreach my $i (0 .. $n - 1)
	{
		my $pid = fork() // die "could not fork: $!\n";

		if ($pid == 0)
		{
			my $done = eval {
				my $db = connect_db();

				$db->do('SET synchronous_commit = off');
				$function->($db, $items->[$_])
				  foreach grep { $_ % $n == $i } 0 .. $#$items;
				1;
			};
			print STDERR "soak: $@" unless $done;
			POSIX::_exit($done ? 0 : 1);
		}
		push @pids, $pid;
	}
	my $failed = 0;
	foreach my $pid (@pids)
	{
		waitpid($pid, 0);
		$failed++ if $?;
	}
	die "the database could not be filled\n" if $failed;
	return;
}

sub _least { return $_[0] < $_[1] ? $_[0] : $_[1]; }

1;
