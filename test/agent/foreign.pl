# foreign.pl: what another scheduler reports of its runs becomes one record for
# each run, in whatever order its words arrive

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $folder = PostgreSQL::Test::Utils::tempdir;
my $agent  = "$ENV{GC_AGENT_BIN}/gpucredit-agent";

append_to_file("$folder/agent.conf", "node = n1\ndatabase = dbname=nowhere\nstate = $folder/state\nforeign_stop = /bin/true\n");

# Runs a command, and returns what it prints.
sub foreign
{
	my ($word, @arguments) = @_;
	my ($out, $err);

	IPC::Run::run([ $agent, 'foreign', "$folder/agent.conf", $word, @arguments ], '>', \$out, '2>', \$err)
	  or return "refused: $err";
	return $out;
}

# The records of a token.
sub runs { return join(' ', map { s{.*/}{}r } sort glob("$folder/state/foreign/$_[0].*")); }

# The seconds between two instants of a run; the second may be "now".
sub seconds
{
	my ($run, $last) = @_;
	my ($boot, $began) = split ' ', slurp_file("$folder/state/foreign/$run/begin");
	my $until = $last eq 'now'
	  ? 1e9 * Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC())
	  : (split ' ', slurp_file("$folder/state/foreign/$run/$last"))[1];

	return ($until - $began) / 1e9;
}

is(foreign('begin', '7'), "7.1\n", 'a run begins');
is(foreign('name', '7.1', 'uuid:0'), '', 'a run that has begun gets its name');
is(foreign('missed', '7', 'uuid:0', 13), '', 'a late report of a run that has begun is accepted');
is(runs(7), '7.1', 'a run that is reported late stays one run');
cmp_ok(seconds('7.1', 'now'), '<', 13, 'a run that is reported late keeps its own begin');
is(foreign('missed', '7', 'uuid:0', 13, 'over'), '', 'a late report that the run is over is accepted');
ok(!-e "$folder/state/foreign/7.1/end", 'a late report does not end a run that has not ended');
foreign('end', '7', 3);
like(slurp_file("$folder/state/foreign/7.1/end"), qr/ 3$/m, 'the end that the run reports counts');
is(foreign('missed', '7', 'uuid:0', 13), '', 'a late report of a run that has ended is accepted');
is(runs(7), '7.1', 'a late report of a run that has ended makes no second one');

is(foreign('missed', '7', 'uuid:1', 20, 'over'), '', 'the next run of that token was never reported');
is(runs(7), '7.1 7.2', 'the run that was never reported gets a record');
cmp_ok(seconds('7.2', 'end'), '==', 20, 'the run that was never reported has the time that the other scheduler counted');

is(foreign('missed', '9', 'uuid:0', 4), '', 'a run that was never reported is found while it runs');
like(foreign('end', '9', 0), qr/^$/, 'the end of a run that was found while it runs is accepted');
cmp_ok(seconds('9.1', 'end'), '>=', 4, 'the end of a run that was found while it runs counts');
my $end = slurp_file("$folder/state/foreign/9.1/end");
foreign('missed', '9', 'uuid:0', 600, 'over');
is(slurp_file("$folder/state/foreign/9.1/end"), $end, 'a later report does not change the end of a run');

like(foreign('end', '10', 0), qr/^refused/, 'an end comes while the other scheduler is being asked for the run');
foreign('missed', '10', 'uuid:0', 4);
ok(!-e "$folder/state/foreign/10.1/end", 'a run whose end came before its record has no end yet');
foreign('missed', '10', 'uuid:0', 5, 'over');
is(runs(10), '10.1', 'a run whose end came before its record stays one run when it is asked for again');
cmp_ok(seconds('10.1', 'end'), '==', 5, 'the run that is asked for again has the time that the other scheduler counted');

is(foreign('begin', '8'), "8.1\n", 'a run begins whose name nobody knows yet');
is(foreign('missed', '8', 'other:0', 13), '', 'a late report of a run without a name is accepted');
is(slurp_file("$folder/state/foreign/8.1/name"), 'other:0', 'a late report names the run that has no name');
is(runs(8), '8.1', 'a late report of a run without a name makes no second run');
like(foreign('adopt', '8', 'third:0'), qr/^refused/, 'a named run is not adopted under another name');
done_testing();
