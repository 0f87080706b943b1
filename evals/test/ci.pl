# ci.pl: the steps of evals/ci in a shell, as GitHub and GitLab run them, and what
# the author of a change may try
#
# Long: it runs the steps of jobs
# Packages: npm:npm cmark-gfm junitparser libcurl4-openssl-dev libmicrohttpd-dev libssl-dev libjansson-dev libpq-dev
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use GpuCreditEvalCommand;
use Encode qw(decode_utf8 encode_utf8);
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $PASSWORD = 's3cret-pa55word';
my $TOKEN = 'forge-token-123';
my $node = eval_node('ci');
my $dir = command_folder();
my $temp = PostgreSQL::Test::Utils::tempdir();
my $work = "$temp/work";		# what the change's author has put there
my %forges;
my ($scripts, $installed) = (0, 0);

sub q_ { return query($node, 'eval', $_[0]) }

system('cp', '-r', "$FindBin::RealBin/../ci", $dir) == 0 or die;
mkdir $_ or die foreach $work, "$temp/victim", "$temp/bin";
append_to_file("$work/.npmrc", "registry=http://127.0.0.1:1\n");
append_to_file("$work/package.json", '{"scripts": {"preinstall": "touch PWNED"}}');
append_to_file("$temp/bin/gpucredit-eval", "#!/bin/sh\nexec node '$dir/cli/gpucredit-eval.mjs' \"\$@\"\n");
chmod 0755, "$temp/bin/gpucredit-eval" or die;

# A set whose author tries everything, and a held-out one.
my $task = 'qa | <img src=x onerror=alert(1)> **b** [a](http://evil.example) @everyone #1';
my $command = "::add-mask::x\n::error::y\n/approve";
my @attacks = ("</code></pre></details><script>alert(1)</script>", "``` \n\n# head\n\n| a |\n|---|\n", '--> <!-- ![x](http://evil.example/p.png)',
	"\n/approve\n/merge", 'www.evil.example mail@evil.example https://evil.example', "\xe2\x80\xaetxt.exe \$(touch PWNED) `touch PWNED`",
	"$PASSWORD and ##[group]x");
my @cases = map { { name => "$_ $attacks[$_]", task => $_ % 2 ? $task : $command, input => { messages => [ { role => 'user',
	content => "Say $attacks[$_]" } ] }, checks => [ { type => 'equals', value => "$attacks[$_] no" } ] } } 0 .. $#attacks;
push @cases, map { { name => "good $_", task => 'good', input => { messages => [ { role => 'user', content => "Say $_" } ] },
	checks => [ { type => 'equals', value => "$_" } ] } } 1 .. 3;

stub_start('model');
q_(sprintf(q{CREATE EXTENSION gpucredit_registry CASCADE;
	CREATE ROLE ci LOGIN IN ROLE gpucredit_tenant;
	SELECT gpucredit.bind_tenant('ci', 'acme', 'nlp');
	SELECT gpucredit_registry.create_model('acme', 'nlp', 'bot', 'm1');
	SELECT gpucredit_registry.commit('acme', 1, 'main', '[{"path": "a", "content": "YQ=="}]', 'v1');
	SELECT gpucredit_eval.set_endpoint('acme', 'model', '%1$s', 1, 2, NULL),
		gpucredit_eval.set_endpoint('acme', 'served', '%1$s', 1, 1, NULL, serves_registry => true),
		gpucredit_eval.create_set('acme', 'open', 'locked', 'open'), gpucredit_eval.create_set('acme', 'hidden', 'held_out', 'hidden')},
	stub_url('model')));
add_cases($node, 'acme', 'open', 'open cases', @cases);
add_cases($node, 'acme', 'hidden', 'hidden cases', map { { name => "CANARY $_", task => 'hidden', expected => "CANARY $_",
	input => { messages => [ { role => 'user', content => "Say CANARY $_" } ] }, checks => [ { type => 'equals', value => "CANARY $_ no" } ] } } 1 .. 20);
q_(q{SELECT gpucredit_eval.grant_set('acme', 'open', 'nlp', 'read'), gpucredit_eval.grant_set('acme', 'hidden', 'nlp', 'run'),
	(gpucredit_eval.set_config('acme', 'main', '{"sets": ["open"], "gates": [{"task": "good"}]}', 'main')).version,
	(gpucredit_eval.set_config('acme', 'whole', '{"sets": ["open", "hidden"], "serving": {"endpoint": "served"}, "gates": [{"task": "good"}]}', 'whole')).version});

# A YAML file, as the command's library reads it.
sub yaml_file
{
	my ($file) = @_;
	my ($json, $errors);

	IPC::Run::run([ 'node', '--input-type=module', '-e', 'import yaml from "js-yaml"; import { readFileSync } from "node:fs";
		console.log(JSON.stringify(yaml.load(readFileSync(process.argv[1], "utf8"))))', $file ],
		'<', \undef, '>', \$json, '2>', \$errors, init => sub { chdir "$dir/cli" or die })
	  or die "$errors\n";
	return JSON::PP->new->decode($json);
}

sub forge_start
{
	my ($name, %options) = @_;
	my $pid = open(my $pipe, '-|', 'node', "$FindBin::RealBin/lib/forge.mjs", encode_json({ token => $TOKEN, %options })) // die;

	chomp(my $port = readline($pipe) // die "the forge does not start\n");
	$forges{$name} = { pid => $pid, pipe => $pipe, url => "http://127.0.0.1:$port" };
	return;
}

sub forge_state { return decode_json(HTTP::Tiny->new->get("$forges{$_[0]}{url}/state")->{content}) }

# The comments of the job itself, and how many others begin like them.
sub own_comments
{
	my ($forge) = @_;
	my @all = @{ forge_state($forge)->{comments} };

	return map { $_->{body} } grep { $_->{user}{login} ne 'mallory' } @all;
}

END
{
	my $status = $?;

	foreach my $forge (values %forges)
	{
		kill 'KILL', $forge->{pid};
		close $forge->{pipe};
	}
	$? = $status;
}

# The command of a script that runs as a runner would, with nothing in its
# environment but this.
sub shell
{
	my ($script, %env) = @_;
	my $file = "$temp/script" . ++$scripts;

	append_to_file($file, $script);
	my %all = (PATH => "$temp/bin:$ENV{PATH}", HOME => $ENV{HOME} || $temp, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'eval',
		PGUSER => 'ci', PGPASSWORD => $PASSWORD, (map { ($_ => $ENV{$_}) } grep { /^(?:npm_config_\w+|https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS)$/i } keys %ENV), %env);
	return ('env', '-i', (map { "$_=$all{$_}" } sort keys %all), 'bash', '--noprofile', '--norc', '-eo', 'pipefail', $file);
}

sub run_shell
{
	my ($script, %env) = @_;
	my $log = '';

	IPC::Run::run([ shell($script, %env) ], '<', \undef, '>', \$log, '2>&1', init => sub { chdir $work or die },
		IPC::Run::timeout(180));
	return ($? >> 8, $log);
}

# GitHub: what the action's steps have in their environment.
my $action = yaml_file("$dir/ci/action.yml");
my @steps = @{ $action->{runs}{steps} };
append_to_file("$temp/event.json", encode_json({ pull_request => { number => 7, head => { sha => 'abcdef0123456789' } } }));

sub github_env
{
	my ($step, $forge, %with) = @_;
	my %inputs = (map { ($_ => $with{$_} // $action->{inputs}{$_}{default} // '') } keys %{ $action->{inputs} });
	my %env = %{ $step->{env} // {} };

	$inputs{'github-token'} = $TOKEN;
	s/\$\{\{ inputs\.([\w-]+) \}\}/$inputs{$1}/g foreach values %env;
	return (GITHUB_ACTIONS => 'true', GITHUB_ACTION_PATH => "$dir/ci", GITHUB_REPOSITORY => 'acme/bot', GITHUB_SHA => 'f' x 40,
		GITHUB_EVENT_PATH => "$temp/event.json", GITHUB_API_URL => $forges{$forge}{url}, GITHUB_OUTPUT => "$temp/output",
		GITHUB_STEP_SUMMARY => "$temp/summary", RUNNER_TEMP => $temp, %env);
}

# All steps of the action, of which one installs, once; returns the exit code of the first that fails, and the log.
sub github
{
	my ($forge, %with) = @_;
	my $all = '';

	unlink "$temp/output", "$temp/summary";
	foreach my $step (@steps)
	{
		next if $step->{name} =~ /^Install/ && $installed++;
		my ($code, $log) = run_shell($step->{run}, github_env($step, $forge, org => 'acme', account => 'nlp', config => 'main', model => 'model', %with));

		$all .= $log;
		return ($code, $all) if $code;
	}
	return (0, $all);
}

# The text of a file.
sub text { return decode_utf8(slurp_file($_[0])) }

sub outputs { return { map { /^(\w+)=(.*)$/ ? ($1 => $2) : die "no output: $_" } split /\n/, slurp_file("$temp/output") } }

# A comment as GitHub renders it, before it removes what is unsafe.
sub rendered
{
	my $comment = encode_utf8($_[0]);
	my $html;

	IPC::Run::run([ 'cmark-gfm', '--unsafe', map { ('-e', $_) } qw(table autolink strikethrough tasklist) ],
		'<', \$comment, '>', \$html) or die "cmark-gfm failed\n";
	return decode_utf8($html);
}

# Tests: a comment has its own elements and no others.
sub is_tame
{
	my ($comment, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $html = rendered($comment);

	$html =~ s/^<!-- gpucredit-eval [0-9a-f]{16} -->\n//;
	my %odd = map { $_ => 1 } grep { !m{^</?(?:h3|h4|p|code|table|thead|tbody|tr|td|th|details|summary|pre|strong)(?: align="right")?>$} }
	  $html =~ /<[^>]*>?/g;
	is(join(' ', sort keys %odd), '', "$name: no element but its own");
	unlike($html =~ s{<(code|pre)>.*?</\1>}{}gsr =~ s/<[^>]*>//gr, qr/evil|everyone|alert|approve|PWNED|head/, "$name: what others wrote is code");
	unlike($html, qr/\@everyone|mail\@evil/, "$name: nobody is mentioned");
	unlike($comment, qr{^\s*/\w}m, "$name: no line is a command of GitLab");
	return $html;
}

# Tests: a log has no secret, no command, and nothing that others chose.
sub is_quiet
{
	my ($log, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	unlike($log, qr/\Q$PASSWORD\E|\Q$TOKEN\E/, "$name: no secret in the log");
	unlike($log, qr/^\s*::|##\[|[\x00-\x08\x0b-\x1f]/m, "$name: no command in the log");
	return;
}

is(join(' ', grep { $_->{run} =~ /\$\{\{/ } @steps), '', 'no step has an expression in its script');
forge_start('github');
my $worker = start_command($node, 'work', '--every', '1');

my ($code, $log) = github('github');
is($code, 1, 'a run that is blocked fails the job') or diag($log);
is_quiet($log, 'GitHub');
unlike($log, qr/img|everyone|approve|evil/, 'nor what others chose');
my $out = outputs();
is("$out->{verdict} $out->{run}", 'block ' . q_('SELECT max(run) FROM gpucredit_eval.run'), 'verdict and run are outputs of the step');
my ($comment) = own_comments('github');
is(scalar(own_comments('github')), 1, 'there is one comment');
my $html = is_tame($comment, 'GitHub');
is(scalar(() = $html =~ /<details>/g), 5, 'it shows the five worst cases');
is(scalar(() = $html =~ /<tr>/g), 1 + 3, 'and each task');
like($html, qr{<code>qa \| &lt;img src=x onerror=alert\(1\)&gt; \*\*b\*\* \[a\]\(http://evil\.example\)}, 'a hostile name reads as it is');
like($comment, qr/at commit abcdef012345/, 'and the commit');
unlike($comment . text("$temp/summary") . text($out->{junit}), qr/\Q$PASSWORD\E/, 'no secret in comment, summary and report');
is(text("$temp/summary"), $comment, 'the summary of the job has the comment');
is(text($out->{comment}), $comment, 'and so has a file');
is(system('/usr/bin/python3', '-c', <<'PY', $out->{junit}), 0, 'JUnit XML, as junitparser reads it');
import sys, junitparser
suites = {s.name: s for s in junitparser.JUnitXml.fromfile(sys.argv[1])}
assert suites["gates"].tests == 3, suites["gates"]
assert suites["good"].tests == 3 and suites["good"].failures == 0, suites["good"]
PY

# the next one takes the place of the first, and is compared with it
my $first = $out->{run};
($code, $log) = github('github', baseline => $first, worst => 0);
is($code, 1, 'the next run');
my @own = own_comments('github');
is(scalar(@own), 1, 'its comment replaces the first');
like($own[0], qr/The baseline is run $first\D/, 'and compares with the baseline');
like($own[0], qr/<code>good<\/code> \| 1 .*\| 1 \| 0\.85 \|/, 'task by task');
unlike($own[0], qr/<details>/, 'without cases, where none are wanted');
is(scalar(grep { $_->{user}{login} eq 'mallory' && $_->{body} eq $comment } @{ forge_state('github')->{comments} }), 1,
	'what somebody else wrote with the same beginning is left');

# held-out cases
($code, $log) = github('github', config => 'whole', model => 'bot@main', purpose => 'production_gate');
is($code, 1, 'a production gate with held-out cases') or diag($log);
$out = outputs();
$comment = text($out->{comment});
is_tame($comment, 'held out');
like($comment, qr/<code>hidden<\/code> \| 0 /, 'tells the score of the whole task');
is(q_("SELECT count(*) FROM gpucredit_eval.result WHERE run = $out->{run} AND convert_from(output, 'UTF8') ~ 'CANARY'"), '20', 'whose cases were asked');
unlike($log . $comment . text($out->{junit}) . text("$temp/summary"), qr/CANARY/, 'and are nowhere');
is(scalar(own_comments('github')), 2, 'another config has its own comment');

# inputs that would run in a shell, or be options or commands
foreach my $model ("x\"; touch PWNED; \$(touch PWNED) `touch PWNED`'; touch PWNED #", "model\n::add-mask::x\n##[error]y", '--help', '-x')
{
	($code, $log) = github('github', model => $model, baseline => '');
	is($code, 70, 'a model that does not exist is an error') or diag($log);
	is_quiet($log, 'hostile input');
	ok(!-e "$work/PWNED" && !-e "$temp/PWNED", 'and nothing else has run');
	is_tame(text("$temp/gpucredit-eval/comment.md"), 'hostile input');
}
is((github('github', baseline => '1; touch PWNED', options => '{"a": "$(touch PWNED)"}'))[0], 70, 'nor by another input');
ok(!-e "$work/PWNED", 'nothing has run');
like((own_comments('github'))[0], qr/not decided.*error, which its log has at commit abcdef/s, 'an earlier comment does not stand for a job that failed');

# a run that is denied, or has no end
is((github('github', cap => '100000'))[0], 2, 'a run that is denied is not decided');
like((own_comments('github'))[0], qr/denied: <code>insufficient&#95;credits/, 'and says why');
kill 'TERM', $worker;
ends_with($worker, 0, 'workers stop when they are asked to');
is((github('github', deadline => 1))[0], 2, 'a run that nobody works on');
is(q_('SELECT state FROM gpucredit_eval.run ORDER BY run DESC LIMIT 1'), 'cancelled', 'is cancelled at the deadline');
my $runs = q_('SELECT count(*) FROM gpucredit_eval.run');
my $log_file = "$temp/stopped.log";
my $pid = fork() // die;
if ($pid == 0)
{
	chdir $work or POSIX::_exit(1);
	open(STDOUT, '>', $log_file) or POSIX::_exit(1);
	open(STDERR, '>&', \*STDOUT) or POSIX::_exit(1);
	exec shell($steps[-1]{run}, github_env($steps[-1], 'github', org => 'acme', account => 'nlp', config => 'main', model => 'model')) or POSIX::_exit(127);
}
ok($node->poll_query_until('eval', "SELECT count(*) > $runs FROM gpucredit_eval.run"), 'a job that is under way');
kill 'INT', $pid;
waitpid $pid, 0;
is($? >> 8, 2, 'ends when it is stopped') or diag(slurp_file($log_file));
is(q_('SELECT state FROM gpucredit_eval.run ORDER BY run DESC LIMIT 1'), 'cancelled', 'and cancels its run');

# a forge that does not answer changes no verdict
$worker = start_command($node, 'work', '--every', '1');
forge_start('broken', status => 500);
($code, $log) = github('broken');
is($code, 1, 'a comment that cannot be posted leaves the verdict');
like($log, qr/no comment is posted: GET has status 500/, 'and the log says so');
is_quiet($log, 'a broken forge');
my $plain = "gpucredit-eval ci --org acme --account nlp --config main --model model --every 1 --folder '$temp/plain'";
($code, $log) = run_shell($plain);
is($code, 1, 'elsewhere');
like($log, qr/no comment is posted: this is no job of GitHub or GitLab/, 'there is only the file');
($code, $log) = run_shell("$plain --work");
is($code, 70, 'a job whose login is no worker measures nothing itself');
is(q_('SELECT state FROM gpucredit_eval.run ORDER BY run DESC LIMIT 1'), 'cancelled', 'and does not leave the run it has started');
q_('GRANT gpucredit_eval_worker TO ci');
is((run_shell("$plain --work"))[0], 1, 'one whose login is a worker does');

# GitLab
my $job = yaml_file("$dir/ci/gitlab.yml")->{'.gpucredit-eval'};
forge_start('gitlab');
symlink "$temp/victim", "$work/gpucredit-eval-report" or die;
append_to_file("$temp/victim/junit.xml", 'mine');
my %gitlab = (%{ $job->{variables} }, GPUCREDIT_EVAL_ORG => 'acme', GPUCREDIT_EVAL_ACCOUNT => 'nlp', GPUCREDIT_EVAL_CONFIG => 'main',
	GPUCREDIT_EVAL_MODEL => 'model', GITLAB_CI => 'true', CI_JOB_ID => 1, CI_API_V4_URL => $forges{gitlab}{url},
	CI_MERGE_REQUEST_PROJECT_ID => 5, CI_MERGE_REQUEST_IID => 9, CI_COMMIT_SHA => 'abcdef0123456789', GPUCREDIT_EVAL_GITLAB_TOKEN => $TOKEN);
my $script = join("\n", @{ $job->{before_script} }, @{ $job->{script} });
($code, $log) = run_shell($script, %gitlab);
is($code, 1, 'GitLab\'s job fails where the run is blocked') or diag($log);
is_quiet($log, 'GitLab');
@own = own_comments('gitlab');
is(scalar(@own), 1, 'and has a comment');
is_tame($own[0], 'GitLab');
is(slurp_file("$temp/victim/junit.xml"), 'mine', 'a link in the checkout leads nowhere');
ok(-s "$work/$job->{artifacts}{reports}{junit}", 'the report is where the job says');
is((run_shell($script, %gitlab, GPUCREDIT_EVAL_WORST => 0))[0], 1, 'the next job');
is(scalar(own_comments('gitlab')), 1, 'replaces the comment');
($code, $log) = run_shell($script, %gitlab, GPUCREDIT_EVAL_MODEL => '"; touch PWNED; $(touch PWNED)', GPUCREDIT_EVAL_BASELINE => '$(touch PWNED)');
is($code, 70, 'variables are text');
ok(!-e "$work/PWNED", 'and do not run');
kill 'TERM', $worker;
ends_with($worker, 0, 'the worker stops');
my ($number) = (run_shell('gpucredit-eval run --org acme --account nlp --config main --model model --no-work'))[1] =~ /^run (\d+)/;
unlink "$work/gpucredit-eval-report/run";
append_to_file("$work/gpucredit-eval-report/run", "$number\n");
is((run_shell(join("\n", @{ $job->{after_script} }), %gitlab, CI_JOB_STATUS => 'canceled'))[0], 0, 'a job that is cancelled');
is(q_("SELECT state FROM gpucredit_eval.run WHERE run = $number"), 'cancelled', 'cancels its run');
eval_verify($node);
done_testing();
