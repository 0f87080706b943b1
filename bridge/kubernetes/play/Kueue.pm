# Kueue.pm: a play Kueue, and the Jobs behind its workloads
#
# It reserves quota for each workload, adds every active check, and once all
# are Ready makes the pods of its pod sets with what podSetUpdates say.  Retry
# evicts a workload, Rejected switches it off.  A pod that fails is made again
# as often as the workload's annotation play/restarts says.
package Kueue;

use strict;
use warnings;

use Store;
use Time::HiRes 'time';

sub new
{
	my ($class, $store) = @_;

	return bless { store => $store, quota => 1e9, after => {}, made => 0 }, $class;
}

sub condition
{
	my ($object, $type) = @_;

	return grep { $_->{type} eq $type && $_->{status} eq 'True' }
	  @{ $object->{status}{conditions} || [] };
}

sub set_condition
{
	my ($object, $type, $status, $reason) = @_;
	my $all = $object->{status}{conditions} ||= [];

	@$all = grep { $_->{type} ne $type } @$all;
	push @$all, {
		type => $type, status => $status, reason => $reason, message => '',
		lastTransitionTime => Store::stamp() };
	return;
}

sub gpus_of
{
	my ($self, $workload) = @_;
	my $sum = 0;

	foreach my $set (@{ $workload->{spec}{podSets} })
	{
		$sum += $set->{count} * ($_->{resources}{limits}{ $self->{store}{resource} } // 0)
		  foreach @{ $set->{template}{spec}{containers} };
	}
	return $sum;
}

sub turn
{
	my ($self) = @_;
	my @all = map { $_->{object} } $self->{store}->all('workloads');
	my %pods;

	return unless @all;
	foreach (map { $_->{object} } $self->{store}->all('pods'))
	{
		my $owner = $_->{metadata}{ownerReferences} || [];

		push @{ $pods{ $owner->[0]{uid} } }, $_ if @$owner;
	}
	$self->{used} = 0;
	$self->{used} += $self->gpus_of($_)
	  foreach grep { condition($_, 'QuotaReserved') && !condition($_, 'Finished') } @all;
	foreach my $old (sort { $a->{metadata}{uid} cmp $b->{metadata}{uid} } @all)
	{
		my $new = Store::copy($old);

		$self->tend($new, @{ $pods{ $old->{metadata}{uid} } || [] });
		$self->{store}->put('workloads', $new, 'MODIFIED')
		  unless Store::same($old, $new);
	}
	# a workload that is deleted takes its pods along
	my %there = map { $_->{metadata}{uid} => 1 } @all;

	$self->end_pods(@{ $pods{$_} }) foreach grep { !$there{$_} } keys %pods;
	return;
}

sub live
{
	return grep { $_->{status}{phase} !~ /^(?:Succeeded|Failed)$/ } @_;
}

sub end_pods
{
	my ($self, @pods) = @_;

	$self->{store}->delete_one('pods', @{ $_->{metadata} }{qw(namespace name)}, {})
	  foreach grep { !$_->{metadata}{deletionTimestamp} } live(@pods);
	return;
}

# One workload.
sub tend
{
	my ($self, $w, @pods) = @_;
	my @checks = @{ $w->{status}{admissionChecks} || [] };
	my $active = $w->{spec}{active} // 1;

	return if condition($w, 'Finished');
	if (condition($w, 'Evicted'))
	{
		$self->end_pods(@pods);
		$self->requeue($w) unless live(@pods) || !condition($w, 'QuotaReserved');
		return unless !condition($w, 'QuotaReserved');
	}
	if (!condition($w, 'QuotaReserved'))
	{
		$self->reserve($w)
		  if $active && time() >= ($self->{after}{ $w->{metadata}{uid} } // 0);
		return;
	}
	my @bad = grep { $_->{state} =~ /^(?:Retry|Rejected)$/ } @checks;

	if (@bad || !$active)
	{
		$w->{spec}{active} = JSON::XS::false
		  if grep { $_->{state} eq 'Rejected' } @bad;
		$self->{after}{ $w->{metadata}{uid} } = time() + ($bad[0]{requeueAfterSeconds} // 0) if @bad;
		set_condition($w, 'Evicted', 'True', @bad ? 'AdmissionCheck' : 'Deactivated');
	}
	elsif (!condition($w, 'Admitted'))
	{
		return if grep { $_->{state} ne 'Ready' } @checks;
		set_condition($w, 'Admitted', 'True', 'Admitted');
		foreach my $set (@{ $w->{spec}{podSets} })
		{
			$self->make_pod($w, $set) foreach 1 .. $set->{count};
		}
	}
	else
	{
		$self->tend_job($w, @pods);
	}
	return;
}

sub reserve
{
	my ($self, $w) = @_;
	my $gpus = $self->gpus_of($w);

	return if $self->{used} + $gpus > $self->{quota};
	$self->{used} += $gpus;
	$w->{status}{admission} = {
		clusterQueue => 'cluster',
		podSetAssignments => [ map {
			{   name => $_->{name}, count => $_->{count},
				flavors => { $self->{store}{resource} => 'gpus' } }
		} @{ $w->{spec}{podSets} } ] };
	$w->{status}{admissionChecks} = [ map {
		{   name => $_->{metadata}{name}, state => 'Pending', message => '',
			lastTransitionTime => Store::stamp() }
	} grep { condition($_, 'Active') } map { $_->{object} } $self->{store}->all('admissionchecks') ];
	set_condition($w, 'Evicted', 'False', 'QuotaReserved') if condition($w, 'Evicted');
	set_condition($w, 'QuotaReserved', 'True', 'QuotaReserved');
	return;
}

# Its pods are gone: it waits for quota again.
sub requeue
{
	my ($self, $w) = @_;

	delete $w->{status}{admission};
	set_condition($w, 'QuotaReserved', 'False', 'Pending');
	set_condition($w, 'Admitted', 'False', 'NoReservation');
	@$_{qw(state message)} = ('Pending', '')
	  foreach @{ $w->{status}{admissionChecks} };
	delete $_->{podSetUpdates} foreach @{ $w->{status}{admissionChecks} };
	return;
}

# What its Job does as pods end.
sub tend_job
{
	my ($self, $w, @pods) = @_;
	my $annotations = $w->{metadata}{annotations} ||= {};
	my $count = 0;
	my @since = grep { ($_->{metadata}{annotations}{'play/admission'} // '') eq admission($w) } @pods;
	my @done = grep { $_->{status}{phase} eq 'Succeeded' } @since;
	my @failed = grep { $_->{status}{phase} eq 'Failed' } @since;

	$count += $_->{count} foreach @{ $w->{spec}{podSets} };
	if (@done == $count)
	{
		set_condition($w, 'Finished', 'True', 'Succeeded');
	}
	elsif (@failed > ($annotations->{'play/restarts'} // 0))
	{
		$self->end_pods(@pods);
		set_condition($w, 'Finished', 'True', 'Failed');
	}
	elsif (@since - @failed < $count)
	{
		$self->make_pod($w, $w->{spec}{podSets}[0]);
	}
	return;
}

sub admission
{
	my ($w) = @_;

	return (condition($w, 'QuotaReserved'))[0]{lastTransitionTime};
}

sub make_pod
{
	my ($self, $w, $set) = @_;
	my $pod = Store::copy($set->{template});
	my $meta = $pod->{metadata} ||= {};

	foreach my $update (map { @{ $_->{podSetUpdates} || [] } } @{ $w->{status}{admissionChecks} })
	{
		next if $update->{name} ne $set->{name};
		foreach my $pair ([ $meta, 'annotations' ], [ $pod->{spec}, 'nodeSelector' ])
		{
			my ($where, $what) = @$pair;
			my $old = $where->{$what} ||= {};
			my $new = $update->{$what} || {};

			die "podSetUpdates may not change $what\n"
			  if grep { defined $old->{$_} && $old->{$_} ne $new->{$_} } keys %$new;
			$where->{$what} = { %$old, %$new };
		}
	}
	$meta->{name} = "$w->{metadata}{name}-" . ++$self->{made};
	$meta->{annotations}{'play/admission'} = admission($w);
	$meta->{ownerReferences} = [ {
		apiVersion => 'batch/v1', kind => 'Job', name => $w->{metadata}{name},
		uid => $w->{metadata}{uid}, controller => JSON::XS::true } ];
	$pod->{spec}{restartPolicy} = 'Never';
	$self->{store}->create('pods', $w->{metadata}{namespace}, $pod);
	return;
}

1;
