# 052_jit.pl: LLVM compiles none of the extension's statements
#
# With JIT on and large tables, the planner would compile each statement that a
# call runs.  This test calls every public function and reads in the log which
# statements were compiled.  Only the caller's own statement may be.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl", "$FindBin::RealBin/../hostile";
use Calls;
use GpuCredit;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('jit',
	"shared_preload_libraries = 'gpucredit,auto_explain'",
	'autovacuum = off', 'max_locks_per_transaction = 512');

plan skip_all => 'this server has no JIT'
  unless query($node, 'postgres', 'SELECT pg_jit_available()') eq 't';

new_database($node, 'jit', 'gpucredit_report');
$node->safe_psql('postgres', Calls::logins());
$node->safe_psql('postgres', sprintf(q{ALTER DATABASE jit SET gpucredit.clock = '%s'}, Calls::NOW));
is(query($node, 'jit', 'SHOW jit'), 'on', 'JIT is on, as it is by default');
$node->append_conf('postgresql.conf', join "\n", 'jit_above_cost = 0',
	'auto_explain.log_min_duration = 0', 'auto_explain.log_nested_statements = on', '');
$node->reload;

my @calls = Calls::all();
my (%session, %refused);
foreach my $call (@calls)
{
	my $dbh = $session{ $call->{role} } ||= DBI->connect(
		'dbi:Pg:' . ($node->connstr('jit') =~ s/\s+/;/gr =~ s/'//gr),
		"h_$call->{role}", undef, { AutoCommit => 1, RaiseError => 1, PrintError => 0 });

	$refused{ $call->{fn} } = $dbh->errstr
	  unless eval { $dbh->selectall_arrayref('/* the call */ ' . Calls::sql($call)); 1 };
}
$_->disconnect foreach values %session;
delete @refused{qw(install_jobs remove_jobs)};	# no pg_cron here
note("$_: $refused{$_}") foreach sort keys %refused;
cmp_ok(scalar(keys %refused), '<', 3, 'the calls succeed');	# 110_shadows.pl sees that each does

# Each plan of the log: the text of its statement, and whether it was compiled.
my ($outer, $inner, %compiled) = (0, 0);
foreach my $logged (split /^(?=\d{4}-\d\d-\d\d )/m, slurp_file($node->logfile))
{
	next unless $logged =~ /plan:\n\tQuery Text: (.*?)\n\t[^\n]*\(cost=/s;
	my $text = $1;

	if ($text =~ m{^/\* the call \*/})
	{
		$outer += $logged =~ /\tJIT:\n/;
		next;
	}
	$inner++;
	$compiled{$text} = 1 if $logged =~ /\tJIT:\n/;
}
cmp_ok($outer, '>', 50, 'the statements that call are compiled, so JIT works');
cmp_ok($inner, '>', 1000, 'the statements inside are in the log');
is_deeply([ sort keys %compiled ], [], 'no statement inside of a call is compiled');

# A user's own SQL is compiled as the user's settings say.
like(query($node, 'jit', 'EXPLAIN SELECT count(*) FROM gpucredit.job'), qr/JIT:/,
	"a user's statement on our tables is his");
query($node, 'jit', q{SELECT gpucredit.verify('acme')});
is(query($node, 'jit', q{SELECT count(*) FROM gpucredit.verify('acme'); SHOW jit}),
	"0\non", 'the setting jit of the session stays after a call');

verify_empty($node, 'jit');
$node->stop;
done_testing();
