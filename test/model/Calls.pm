# Calls.pm: each call as SQL and as a call of the model
#
# %calls: what the call returns, its parameters in order (with a type to cast
# to if text is not enough), and the model's function.  A parameter of type
# "us" is an instant in microseconds.
package Calls;

use strict;
use warnings;

use Compare;
use Exporter 'import';
use Model::Attempt;
use Model::Credit;
use Model::Job;
use Model::Ledger;
use Model::Node;
use POSIX ();

our @EXPORT = qw(%calls call_sql call_values call_text when_text);

# A duration in microseconds.
sub span
{
	my ($column) = @_;

	return "(extract(epoch FROM $column) * 1000000)::bigint";
}

my @back = qw(released lapsed replayed);

our %calls = (
	create_account => [
		['*'], [qw(org account weight:numeric)],
		\&Model::Credit::create_account ],
	suspend_account => [
		['*'], [qw(org account suspended:boolean)],
		\&Model::Credit::suspend_account ],
	grant_tier => [
		['*'], [qw(org account tier)], \&Model::Job::grant_tier ],
	revoke_tier => [
		['*'], [qw(org account tier)], \&Model::Job::revoke_tier ],
	write_off => [
		[qw(written_off owed replayed)],
		[qw(org account key reason amount:numeric)],
		\&Model::Credit::write_off ],
	set_budget => [
		['*'], [qw(org account amount:numeric period hard:boolean)],
		\&Model::Credit::set_budget ],
	set_quota => [
		['*'],
		[qw(org account gpu_type max_gpus:int max_running:int max_queued:int)],
		\&Model::Job::set_quota ],
	set_slices => [
		['*'], [qw(org account n:int)], \&Model::Credit::set_slices ],
	set_price => [
		['*'], [qw(gpu_type per_gpu_hour:numeric pool -effective_at spot:boolean)],
		\&Model::Job::set_price ],
	register_node => [
		['*'],
		[   qw(pool node gpu_type gpus:int gpu_memory_mib:bigint -cpu_milli
			  -memory_mib -nvlink_domain -leaf spot:boolean) ],
		\&Model::Node::register_node ],
	drain => [
		['*'], [qw(node reason deadline:us)], \&Model::Node::drain ],
	reclaim => [ ['*'], [qw(node notice:interval)], \&Model::Node::reclaim ],
	resume  => [ ['*'], [qw(node)], \&Model::Node::resume ],
	heartbeat => [
		[   "coalesce(string_agg(concat_ws(' ', org, job, attempt, action,"
			  . " gpus, share, coalesce("
			  . Compare::us('deadline')
			  . ", '-'), coalesce("
			  . span('time_left')
			  . "::text, '-'), coalesce(reason, '-')), E'\\n'), '')" ],
		[qw(node)],
		\&Model::Node::heartbeat ],
	issue => [
		[qw(bucket replayed)],
		[   qw(org account key amount:numeric kind expires_at:us
			  effective_at:us priority:int policy:jsonb memo
			  valid_for:interval) ],
		\&Model::Credit::issue ],
	transfer => [
		[qw(moved status reason replayed)],
		[qw(org from_account to_account key amount:numeric)],
		\&Model::Credit::transfer ],
	revoke => [
		[qw(revoked replayed)], [qw(org bucket:bigint key reason)],
		\&Model::Credit::revoke ],
	expire_credits =>
	  [ [qw(task affected)], [], \&Model::Credit::expire_credits ],
	hold => [
		[   qw(hold status reason held), Compare::us('expires_at'),
			'replayed' ],
		[qw(org account key amount:numeric ttl:interval)],
		\&Model::Credit::hold ],
	capture => [
		[ 'captured', @back ],
		[qw(org hold:bigint key amount:numeric final:boolean)],
		\&Model::Credit::capture ],
	release =>
	  [ [@back], [qw(org hold:bigint key)], \&Model::Credit::release ],
	refund_hold => [
		[qw(refunded lapsed replayed)],
		[qw(org hold:bigint key amount:numeric reason)],
		\&Model::Credit::refund_hold ],
	refund => [
		[qw(refunded lapsed replayed)],
		[qw(org job:bigint key amount:numeric reason)],
		\&Model::Job::refund ],
	reserve => [
		[qw(job status reason held replayed)],
		[   qw(org account key request wall_limit:interval tier pool
			  -topology -preemptible max_retries:int -cpu_milli -memory_mib
			  hold_window:interval) ],
		\&Model::Job::reserve ],
	cancel => [
		[qw(job_state replayed)], [qw(org job:bigint key reason)],
		\&Model::Job::cancel ],
	meter => [
		[   qw(action reason billed held), Compare::us('deadline'),
			span('time_left') ],
		[qw(org job:bigint attempt:int elapsed:interval)],
		\&Model::Attempt::meter ],
	meter_batch => [
		[   "string_agg(concat_ws(' ', org, job, attempt, action,"
			  . " coalesce(reason, '-'), billed, held, coalesce("
			  . Compare::us('deadline')
			  . ", '-'), coalesce("
			  . span('time_left')
			  . "::text, '-')), E'\\n' ORDER BY ordinal)" ],
		[qw(org:text[] job:bigint[] attempt:int[] elapsed:interval[])],
		\&Model::Attempt::meter_batch ],
	checkpoint => [
		['*'],
		[   qw(org job:bigint attempt:int step:bigint uri sha256:bytea
			  size_bytes:bigint) ],
		\&Model::Attempt::checkpoint ],
	set_lost_work => [
		['*'], [qw(tier outcome billed:boolean)],
		\&Model::Attempt::set_lost_work ],
	settle => [
		[   qw(outcome billed released lapsed refunded job_state),
			Compare::us('retry_at'), 'uncollected', 'replayed' ],
		[   qw(org job:bigint attempt:int outcome elapsed:interval
			  exit_code:int message) ],
		\&Model::Attempt::settle ],
	reap_holds  => [ ["''"], [], sub { return [''] } ],
	check_nodes => [ ["''"], [], sub { return [''] } ],
	maintain   => [ ["''"], [], sub { return [''] } ],
	place      => [
		[qw(action org job attempt node gpus share gpu_type per_gpu_hour)],
		[qw(pool)], undef ]);

# The call with placeholders.  Parameters written with a minus are left out,
# so those after them are given by name.
sub call_sql
{
	my ($name) = @_;
	my ($columns, $parameters) = @{ $calls{$name} };
	my ($n, $left_out) = (0, 0);
	my @arguments;

	foreach (@$parameters)
	{
		if (/^-/)
		{
			$left_out = 1;
			next;
		}
		my ($parameter, $type) = split(/:/);

		$n++;
		push @arguments,
		  ($left_out ? "$parameter => " : '') . "\$$n"
		  . (!defined $type ? '::text'
			: $type eq 'us' ? '::timestamptz'
			:                 "::$type");
	}
	return 'SELECT '
	  . join(', ', @$columns)
	  . " FROM gpucredit.$name("
	  . join(', ', @arguments) . ')';
}

# The values of the placeholders.
sub call_values
{
	my ($name, $a) = @_;

	return map {
		my ($parameter, $type) = split(/:/);
		my $value = $a->{$parameter};

		defined $value && ($type || '') eq 'us' && $value =~ /^-?\d+$/
		  ? when_text($value)
		  : $value
	} grep { !/^-/ } @{ $calls{$name}[1] };
}

# The call as a user would type it.
sub call_text
{
	my ($dbh, $name, $a) = @_;
	my @values = call_values($name, $a);
	my $sql    = call_sql($name);

	$sql =~ s/\$(\d+)/$dbh->quote($values[$1 - 1])/ge;
	$sql =~ s/^SELECT .*? FROM gpucredit/SELECT * FROM gpucredit/;
	return $sql;
}

# An instant as PostgreSQL reads it.
sub when_text
{
	my ($us) = @_;
	use integer;

	return POSIX::strftime('%Y-%m-%d %H:%M:%S', gmtime($us / 1_000_000))
	  . sprintf('.%06d+00', $us % 1_000_000);
}

1;
