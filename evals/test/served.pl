# served.pl: a production gate measures the version that it says, as the agent
# of the job that serves it reports, and nobody who starts it can change that
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use File::Path qw(make_path);
use GpuCreditEval;
use GpuCredit;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = eval_node('served', q{gpucredit.relay = 'relay.example.org:7000'});
my $usage = '{"prompt_tokens": 10, "completion_tokens": 5}';
my $keys = 0;

sub q_ { return query($node, 'eval', $_[0]) }
sub fails { return query_fails($node, 'eval', @_) }
sub as { return "SET ROLE $_[0]; $_[1]" }

# All of the error of a statement: its message, detail and hint.
sub sqlerror
{
	my $dbh = connect_to($node, 'eval');

	eval { $dbh->do($_) foreach split /; /, $_[0], 2; 1 } and return '';
	my $error = $dbh->errstr;
	$dbh->disconnect;
	return $error;
}

# A model with two versions, a config of the organisation whose job serves them,
# and nodes for gates
q_(q{CREATE EXTENSION gpucredit_registry CASCADE;
	CREATE ROLE house LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE nlp LOGIN IN ROLE gpucredit_tenant;
	CREATE ROLE agent LOGIN IN ROLE gpucredit_agent;
	SELECT gpucredit.bind_tenant('house', 'acme', ''), gpucredit.bind_tenant('nlp', 'acme', 'nlp');
	SELECT gpucredit_registry.create_model('acme', 'nlp', 'bot', 'm1');
	SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "a", "content": "YQ=="},
		{"path": "B/c d.txt", "content": "Yg=="}, {"path": "a.b", "content": ""}, {"path": "é", "content": "w6k="}]', 'v1');
	SELECT gpucredit_registry.commit('acme', 1, 'next', '[{"path": "a", "content": "Yg=="}]', 'v2');
	SELECT gpucredit.create_pool('eval-gate'), gpucredit.create_pool('eval-nightly'), gpucredit.set_price('A100', 2);
	SELECT gpucredit.register_node('eval-gate', 'g1', 'A100', 8, 40960);
	SELECT gpucredit_eval.set_endpoint('acme', 'served', 'http://127.0.0.1:3', 1, 1, NULL, serves_registry => true);
	SELECT gpucredit_eval.create_set('acme', 'small', 'locked', 's1');
	SELECT gpucredit_eval.grant_set('acme', 'small', 'nlp', 'run')});
add_cases($node, 'acme', 'small', 'c1', map { { name => "c$_", input => "q $_", checks => [ { type => 'contains', value => 'right' } ] } } 1 .. 3);
my ($version, $oid) = split /\|/, q_(q{SELECT version, oid FROM gpucredit_registry.find_revision('acme', 'bot', 'main')});
my $serving = { endpoint => 'served', gpu => { request => '1xA100', wall_limit => '1 hour', spec => { script => 'serve', env => { A => 'b' } } } };

sub config
{
	my ($name, %document) = @_;

	return q_(as('house', sprintf(q{SELECT version FROM gpucredit_eval.set_config('acme', '%s', '%s', 'config %d')}, $name,
				encode_json({ sets => ['small'], %document }), ++$keys)));
}

config('gate', serving => $serving);
config('bare', serving => { endpoint => 'served' });
fails(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'bare', 'r0')}), '22023',
	'a release gate takes no config of which no agent reports what is served');
fails(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'gate', 'r0', serving => 'trust')}), '22023', 'nor an unknown word');
q_(as('house', q{SELECT gpucredit_eval.set_release_gate('acme', 1, 'prod', 'gate', 'r1')}));
is(q_(as('nlp', q{SELECT serving FROM gpucredit_eval.release_gates('acme')})), 'job', 'unless the curators vouch for its endpoint');

# the digest is the agent's: its own script reads the files of a version
my $folder = PostgreSQL::Test::Utils::tempdir();
make_path("$folder/B");
append_to_file("$folder/$_->[0]", $_->[1]) foreach [ 'a', 'a' ], [ 'B/c d.txt', 'b' ], [ 'a.b', '' ], [ "\xc3\xa9", "\xc3\xa9" ];
my ($script) = slurp_file("$FindBin::RealBin/../../agent/checkpoints.c") =~ /folder_script\[\] =\s*((?:".*"\s*)+);/;
$script = join '', $script =~ /"(.*)"/g;
my ($digest) = qx(cd '$folder' && sh -c '$script') =~ /^([0-9a-f]{64}) /;
is(q_("SELECT encode(gpucredit_registry.folder_digest('acme', $version), 'hex')"), $digest,
	'the registry knows the digest that an agent computes of a folder with a version\'s files');
my $other = q_(q{SELECT encode(gpucredit_registry.folder_digest('acme', (gpucredit_registry.find_revision('acme', 'bot', 'next')).version), 'hex')});
fails('SELECT gpucredit_registry.folder_digest(\'acme\', 99)', 'UC501', 'a version that is not there has none');
fails(as('nlp', "SELECT gpucredit_registry.folder_digest('rival', $version)"), 'UC501', 'nor has one of another organisation');

# Starts a production gate of version main; its number and job.
sub start
{
	my (%more) = @_;
	my $run = q_(as('nlp', sprintf(q{SELECT coalesce(run::text, reason) FROM gpucredit_eval.start_run('acme', 'nlp', 'run %d', '%s',
		'bot@main', '%s', 50)}, ++$keys, $more{config} // 'gate', $more{purpose} // 'production_gate')));

	return ($run, q_("SELECT gpu_job FROM gpucredit_eval.run WHERE run = $run"));
}

# Has the job's attempt placed, and heard of by its agent.
sub runs
{
	my ($job, $attempt) = @_;

	q_(q{SELECT gpucredit.place('eval-gate')});
	q_(as('agent', q{SELECT gpucredit.heartbeat('g1', about => '{"sessions": []}')}));
	return q_(as('agent', sprintf(q{SELECT gpucredit.meter('acme', %d, %d, '1 s')}, $job, $attempt // 1)));
}

sub reported
{
	my ($job, $sha256, $attempt, $step) = @_;

	return q_(as('agent', sprintf(q{SELECT gpucredit.checkpoint('acme', %d, %d, %d, '/srv/model', '\x%s', 10)}, $job, $attempt // 1,
			$step // 1, $sha256)));
}

sub lease
{
	my ($run, $n) = @_;

	return map { [ split /\|/ ] } split /\n/, q_(as('worker', sprintf(q{SELECT "case", attempt FROM
		gpucredit_eval.lease_cases('acme', %d, 'w', %d, '10 min')}, $run, $n // 10)));
}

sub answer
{
	my ($run, @rows) = @_;

	q_(as('worker', qq{SELECT FROM gpucredit_eval.report('acme', $run, $_->[0], $_->[1], 'right', '[{"type": "contains", "pass": true}]', '$usage')}))
		foreach @rows;
	return;
}

sub state { return q_("SELECT state, problem FROM gpucredit_eval.run WHERE run = $_[0]") }
sub promote { return q_(as('house', sprintf(q{SELECT status, reason FROM gpucredit_eval.promote('acme', 1, 'prod', %d, %d, 'p %d')}, $version, $_[0], ++$keys))) }
sub over { return q_("SELECT gpucredit.settle('acme', $_[0], $_[1], 'cancelled', '1 s')") }

# what the job serves is the config's, and it learns which version that is
fails(as('nlp', q{SELECT gpucredit_eval.start_run('acme', 'nlp', 'own', 'gate', 'bot@main', 'production_gate', 50,
	options => '{"gpu": {"request": "1xA100", "wall_limit": "1 h", "spec": {"script": "mine"}}}')}), '22023', 'who starts a gate does not say what serves it');
my ($run, $job) = start();
is(q_("SELECT spec ->> 'script', spec -> 'env' FROM gpucredit.job WHERE job = $job"), qq(serve|{"A": "b", "EVAL_MODEL": "bot\@$oid"}),
	'the script of the config serves, and its environment has the version');
is(lease($run), 0, 'no case is leased while the job waits');
runs($job);
is(lease($run), 0, 'nor before its agent has reported what it serves');
fails(as($_, "SELECT gpucredit.checkpoint('acme', $job, 1, 1, '/srv/model', '\\x$digest', 10)"), '42501', "$_ reports nothing")
	foreach qw(nlp house worker);
is(state($run), 'running|', 'the run goes on');
reported($job, $digest);
is(q_(as('nlp', "SELECT attempt, step, uri, encode(sha256, 'hex'), bad_at FROM gpucredit.checkpoints('acme', $job)")), "1|1|/srv/model|$digest|",
	'the report is shown to whose job it is');
my @leased = lease($run);
is(@leased, 3, 'then they are');
answer($run, @leased);
is(state($run), 'finished|', 'the run finishes');
is(promote($run), 'promoted|', 'and its version ships');
over($job, 1);

# another model than the version
($run, $job) = start();
runs($job);
reported($job, $other);
my $before = q_(q{SELECT spent FROM gpucredit.balance('acme', 'nlp')});
is(lease($run), 0, 'a job that serves another version is asked nothing');
is(state($run), 'cancelled|other_model', 'and its run has ended');
is(q_("SELECT DISTINCT passes, reason FROM gpucredit_eval.gate('acme', $run)"), '|other_model', 'without a verdict');
is(promote($run), 'denied|other_model', 'which ships nothing');
is(q_("SELECT cancelled FROM gpucredit.job WHERE job = $job"), 't', 'the job is told to stop');
is(q_(q{SELECT spent FROM gpucredit.balance('acme', 'nlp')}), $before, 'no call was paid for');
over($job, 1);

# another model after the first cases
($run, $job) = start();
runs($job);
reported($job, $digest);
answer($run, lease($run, 2));
reported($job, $other, 1, 2);
is(lease($run), 0, 'a job that loads another version later is asked nothing more');
is(state($run), 'cancelled|other_model', 'and its run has ended, too');
over($job, 1);
($run, $job) = start();
runs($job);
reported($job, $digest);
@leased = lease($run);
reported($job, $other, 1, 2);
answer($run, @leased);
is(state($run), 'cancelled|other_model', 'so does one whose last answers come after that');
is(q_("SELECT count(*) FROM gpucredit_registry.scores('acme', $version) WHERE detail ->> 'run' = '$run'"), '0', 'the registry has no scores of it');
over($job, 1);

# the job ends before the run
($run, $job) = start();
runs($job);
reported($job, $digest);
@leased = lease($run);
q_(as('nlp', "SELECT gpucredit.cancel('acme', $job, 'stop $job')"));
answer($run, @leased);
is(state($run), 'cancelled|not_served', 'who stops the job and answers in its place gets no verdict');
over($job, 1);
($run, $job) = start();
q_(as('nlp', "SELECT gpucredit.cancel('acme', $job, 'stop $job')"));
is(lease($run), 0, 'a job that was cancelled before it started serves nothing');
is(state($run), 'cancelled|not_served', 'and ends the run');

# the node is lost: the next attempt reports for itself
($run, $job) = start();
runs($job);
reported($job, $digest);
@leased = lease($run, 2);
answer($run, $leased[0]);
q_("SELECT gpucredit.settle('acme', $job, 1, 'node_lost', '1 s')");
is(lease($run), 0, 'the report of an attempt that is over counts for no other');
runs($job, 2);
is(lease($run), 0, 'the next one has to report');
reported($job, $digest, 2, 2);
my @rest = lease($run);
is(@rest, 1, 'then cases are leased');
my $late = $leased[1];
q_(as('worker', "SELECT gpucredit_eval.release_case('acme', $run, $late->[0], $late->[1], true)"));
answer($run, @rest, lease($run));
is(state($run), 'finished|', 'and the run finishes');
over($job, 2);
($run, $job) = start();
runs($job);
reported($job, $digest);
@leased = lease($run);
q_("SELECT gpucredit.settle('acme', $job, 1, 'node_lost', '1 s')");
runs($job, 2);
reported($job, $digest, 2, 2);
answer($run, @leased);
is(state($run), 'cancelled|not_served', 'an answer that came after its attempt was over need not be the model\'s');
over($job, 2);

# who starts the run owns the job, and must not reach into it
($run, $job) = start();
runs($job);
reported($job, $digest);
is(q_(as('nlp', "SELECT kind FROM (SELECT 'opened' AS kind FROM gpucredit.open_session('acme', $job)) s")), 'opened', 'the owner of a job opens a terminal in it');
answer($run, lease($run));
is(state($run), 'cancelled|entered', 'and gets no verdict of the run');
is(promote($run), 'denied|entered', 'nor ships anything');
over($job, 1);
($run, $job) = start();
runs($job);
reported($job, $digest);
my $beside = q_(as('nlp', q{SELECT job FROM gpucredit.reserve('acme', 'nlp', 'beside', '1xA100', '1 hour', pool => 'eval-gate')}));
q_(q{SELECT gpucredit.place('eval-gate')});
q_("SELECT gpucredit.settle('acme', $beside, 1, 'completed', '1 s')");
answer($run, lease($run));
is(state($run), 'cancelled|entered', 'a job of the same account beside it, which runs as the same user, has the same effect, and when it is over, too');
over($job, 1);
($run, $job) = start();
$beside = q_(as('nlp', q{SELECT job FROM gpucredit.reserve('acme', 'nlp', 'beside again', '1xA100', '1 hour', pool => 'eval-gate')}));
runs($job);
q_("SELECT gpucredit.settle('acme', $beside, 1, 'node_lost', '1 s')");
q_("SELECT gpucredit.cancel('acme', $beside, 'beside again')");
reported($job, $digest);
answer($run, lease($run));
is(state($run), 'cancelled|entered', 'so has one whose attempt began before it');
over($job, 1);
q_(q{SELECT gpucredit.register_node('eval-gate', 'g2', 'A100', 8, 40960)});
$beside = q_(as('nlp', q{SELECT job FROM gpucredit.reserve('acme', 'nlp', 'elsewhere', '1xA100', '1 hour', pool => 'eval-gate',
	options => '{"placement": {"nodes": ["g2"]}}')}));
q_(q{SELECT gpucredit.place('eval-gate'); SELECT gpucredit.drain('g2', 'enough')});
is(q_("SELECT nodes FROM gpucredit.jobs WHERE job = $beside") =~ /^g2\{/, 1, 'one on another node');
($run, $job) = start();
runs($job);
reported($job, $digest);
answer($run, lease($run));
is(state($run), 'finished|', 'has not');
over($_, 1) foreach $job, $beside;
my ($first, $first_job) = start();
my ($second, $second_job) = start();
my $foreign = q_(q{SELECT job FROM gpucredit.reserve('acme', 'vision', 'foreign', '1xA100', '1 hour', pool => 'eval-gate')});
runs($first_job);
runs($second_job);
reported($_, $digest) foreach $first_job, $second_job;
answer($_, lease($_)) foreach $first, $second;
is(state($_), 'finished|', 'but not another gate\'s job, nor one of another account') foreach $first, $second;
over($_, 1) foreach $first_job, $second_job, $foreign;

# a pool whose jobs Slurm or Kubernetes runs, behind a bridge, serves nothing: no agent
# would report what
q_(q{SELECT gpucredit.create_pool('eval-nightly', '{"placed_by": "foreign"}')});
my $foreign_run = q{SELECT gpucredit_eval.start_run('acme', 'nlp', '%s', 'gate', 'bot@main', '%s', 50, options => '%s')};
my $gpu = '{"endpoint": "served", "gpu": {"request": "1xA100", "wall_limit": "1 h", "spec": {"script": "serve"}}}';
my $held = q_(q{SELECT held FROM gpucredit.balance('acme', 'nlp')});
fails(as('nlp', sprintf($foreign_run, 'foreign', 'nightly', $gpu)), 'UC602', 'no run reserves a job where another scheduler places it');
($run, $job) = start();
q_(q{SELECT gpucredit.create_pool('eval-gate', '{"placed_by": "foreign"}')});
is(lease($run), 0, 'nor is anything leased of one whose pool another scheduler has by now');
is(state($run), 'cancelled|not_served', 'and it has ended');
foreach my $purpose (qw(production_gate preview))
{
	fails(as('nlp', sprintf($foreign_run, "foreign $purpose", $purpose, '{}')), 'UC602', "a $purpose is refused, too");
}
like(sqlerror(as('nlp', sprintf($foreign_run, 'foreign again', 'preview', '{}'))), qr/another scheduler places the jobs of pool "eval-gate".*would not run the script.*name an endpoint/s,
	'which says why, and what to do');
is(q_(q{SELECT held FROM gpucredit.balance('acme', 'nlp')}), $held, 'and holds nothing');
q_(qq{SELECT gpucredit.create_pool(p) FROM unnest('{eval-gate,eval-nightly}'::text[]) p});

# a preview asks nothing of another model either, and nothing where all is known
($run, $job) = start(purpose => 'preview');
runs($job);
reported($job, $other);
is(lease($run), 0, 'a preview of another model is asked nothing');
is(state($run), 'cancelled|other_model', 'and ends');
over($job, 1);
($run, $job) = start(purpose => 'preview', config => 'bare');
is(lease($run), 3, 'an endpoint without a job is asked at once');
q_("SELECT gpucredit_eval.cancel_run('acme', $run, 'enough')");
eval_verify($node);
done_testing();
