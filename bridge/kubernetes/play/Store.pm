# Store.pm: what the play API server keeps, and Kubernetes' rules for it
#
# Objects, their versions, and a history of changes for watches; on disk, too,
# if there is a file for them.  The rules are those that a bridge can run into:
# versions (409), what of a pod may change (422), graceful deletion, finalizers.
# Strategic merge patches merge maps and replace lists.
package Store;

use strict;
use warnings;

use B ();
use IO::Handle;
use JSON::XS;
use POSIX 'strftime';
use Time::HiRes 'time';

my $json = JSON::XS->new->utf8->canonical;

# plural => group, version, kind, namespaced, short name
our %KIND = (
	namespaces      => ['', 'v1', 'Namespace', 0, 'ns'],
	nodes           => ['', 'v1', 'Node', 0, 'no'],
	pods            => ['', 'v1', 'Pod', 1, 'po'],
	events          => ['', 'v1', 'Event', 1, 'ev'],
	leases          => ['coordination.k8s.io', 'v1', 'Lease', 1, ''],
	workloads       => ['kueue.x-k8s.io', 'v1beta1', 'Workload', 1, 'wl'],
	admissionchecks => ['kueue.x-k8s.io', 'v1beta1', 'AdmissionCheck', 0, ''],
	clusterroles    => ['rbac.authorization.k8s.io', 'v1', 'ClusterRole', 0, ''],
	clusterrolebindings => ['rbac.authorization.k8s.io', 'v1', 'ClusterRoleBinding', 0, ''],
	roles           => ['rbac.authorization.k8s.io', 'v1', 'Role', 1, ''],
	rolebindings    => ['rbac.authorization.k8s.io', 'v1', 'RoleBinding', 1, ''],
	serviceaccounts => ['', 'v1', 'ServiceAccount', 1, 'sa'],
	secrets         => ['', 'v1', 'Secret', 1, ''],
	deployments     => ['apps', 'v1', 'Deployment', 1, 'deploy'],
	clusterqueues   => ['kueue.x-k8s.io', 'v1beta1', 'ClusterQueue', 0, 'cq'],
	resourceflavors => ['kueue.x-k8s.io', 'v1beta1', 'ResourceFlavor', 0, ''],
);

sub new
{
	my ($class, $resource, $file) = @_;
	my $self = bless {
		resource => $resource || 'nvidia.com/gpu',
		version  => 1000,
		objects  => { map { $_ => {} } keys %KIND },
		history  => { map { $_ => [] } keys %KIND },
		forgot   => { map { $_ => 0 } keys %KIND },
		on_change => sub { },
	}, $class;

	$self->keep_in($file) if defined $file;
	return $self;
}

# Takes over what a file has, and writes further changes there.
sub keep_in
{
	my ($self, $file) = @_;

	open(my $keep, '+>>', $file) or die "$file: $!\n";
	seek($keep, 0, 0);
	while (defined(my $line = <$keep>))
	{
		my $kept = eval { $json->decode($line) };

		next unless $kept;		# the server died as it wrote this
		my ($plural, $type, $object) = @$kept;

		$self->{version} = $object->{metadata}{resourceVersion};
		$self->record_change($plural, $object, $type, $json->encode($object));
	}
	# a server that starts again has no changes from before
	$self->forget($_, $self->{version}) foreach keys %KIND;
	$keep->autoflush(1);
	print $keep "\n";			# ends what was half written
	$self->{keep} = $keep;
	return;
}

# Refusals are thrown: [status, reason, message].
sub refuse
{
	my ($status, $reason, $message) = @_;

	die [ $status, $reason, $message ];
}

sub stamp
{
	my ($at) = @_;

	return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(defined $at ? $at : time()));
}

sub copy
{
	return $json->decode($json->encode($_[0]));
}

# What a path names: plural, namespace, name, part; nothing: no resource.
sub parts
{
	my ($path) = @_;
	my ($group, undef, $space, $plural, $name, $part) =
	  $path =~ m{^/(?:api/v1|apis/([^/]+)/([^/]+))/(?:namespaces/([^/]+)/)?([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?$}
	  or return;

	return unless $KIND{$plural} && $KIND{$plural}[0] eq ($group // '')
	  && ($plural ne 'namespaces' || !defined $space);
	return ($plural, $space, $name, $part // '');
}

sub key
{
	my ($object) = @_;
	my $meta = $object->{metadata};

	return ($meta->{namespace} // '') . "/$meta->{name}";
}

sub find
{
	my ($self, $plural, $space, $name) = @_;
	my $entry = $self->{objects}{$plural}{ ($space // '') . "/$name" };

	return $entry && $entry->{object};
}

sub get
{
	my ($self, $plural, $space, $name) = @_;

	return $self->find($plural, $space, $name)
	  || refuse(404, 'NotFound', qq{$plural "$name" not found});
}

sub all
{
	my ($self, $plural) = @_;
	my $objects = $self->{objects}{$plural};

	return map { $objects->{$_} } sort keys %$objects;
}

# Writes an object in a new version, and tells the watches.
sub put
{
	my ($self, $plural, $object, $type) = @_;

	$object->{metadata}{resourceVersion} = '' . ++$self->{version};
	my $text = $json->encode($object);

	print { $self->{keep} } qq(["$plural","$type",$text]\n) if $self->{keep};
	$self->{on_change}->($plural, $self->record_change($plural, $object, $type, $text));
	return $object;
}

# A change as watches get it: [version, type, object, text].
sub record_change
{
	my ($self, $plural, $object, $type, $text) = @_;
	my $key = key($object);
	my $change = [ $self->{version}, $type, $object, $text ];

	if ($type eq 'DELETED')
	{
		delete $self->{objects}{$plural}{$key};
	}
	else
	{
		$self->{objects}{$plural}{$key} = { object => $object, text => $text };
	}
	push @{ $self->{history}{$plural} }, $change;
	$self->forget($plural, $self->{history}{$plural}[2000][0])
	  if @{ $self->{history}{$plural} } > 4000;
	return $change;
}

# Forgets the changes up to a version, as a real server does after minutes.
sub forget
{
	my ($self, $plural, $upto) = @_;

	$self->{forgot}{$plural} = $upto;
	@{ $self->{history}{$plural} } =
	  grep { $_->[0] > $upto } @{ $self->{history}{$plural} };
	return;
}

sub create
{
	my ($self, $plural, $space, $object) = @_;
	my ($group, $version, $kind, $spaced) = @{ $KIND{$plural} };
	my $meta = $object->{metadata} ||= {};

	refuse(400, 'BadRequest', 'metadata is no object') if ref $meta ne 'HASH';
	if ($spaced)
	{
		refuse(404, 'NotFound', qq{namespaces "$space" not found})
		  unless $self->find('namespaces', '', $space);
		refuse(400, 'BadRequest', 'the namespace of the object is another')
		  if ($meta->{namespace} // $space) ne $space;
		$meta->{namespace} = $space;
	}
	$meta->{name} //= $meta->{generateName} . sprintf('%05x', $self->{version} + 1)
	  if defined $meta->{generateName};
	refuse(422, 'Invalid', 'metadata.name: Required value')
	  unless defined $meta->{name} && $meta->{name} =~ /^[a-z0-9][-a-z0-9.]{0,252}$/;
	refuse(409, 'AlreadyExists', qq{$plural "$meta->{name}" already exists})
	  if $self->find($plural, $space, $meta->{name});
	check_annotations($meta);
	$object->{apiVersion} = $group eq '' ? $version : "$group/$version";
	$object->{kind} = $kind;
	$meta->{uid} = new_uid();
	$meta->{creationTimestamp} = stamp();
	delete $meta->{deletionTimestamp};
	$self->new_pod($object) if $plural eq 'pods';
	$object->{status} = {} if $plural =~ /^(?:workloads|admissionchecks)$/;
	return $self->put($plural, $object, 'ADDED');
}

sub new_uid
{
	return join '-', map { join '', map { sprintf '%04x', rand 65536 } 1 .. $_ }
	  2, 1, 1, 1, 3;
}

# Was it a string in JSON?
sub is_text
{
	return defined $_[0] && !ref $_[0] && B::svref_2object(\$_[0])->FLAGS & B::SVf_POK;
}

# Was it a whole number in JSON?
sub is_count
{
	my ($copy) = @_;			# a match would make a string of it

	return defined $copy && !ref $copy && !is_text($_[0]) && $copy =~ /^-?\d+$/;
}

sub check_annotations
{
	my ($meta) = @_;
	my $size = 0;

	foreach my $words ($meta->{annotations}, $meta->{labels})
	{
		refuse(400, 'BadRequest', 'json: cannot unmarshal into map[string]string')
		  if defined $words && (ref $words ne 'HASH' || grep { !is_text($_) } values %$words);
	}
	$size += length foreach %{ $meta->{annotations} || {} };
	refuse(422, 'Invalid', 'metadata.annotations: Too long') if $size > 262144;
	return;
}

# A pod as it is created: checked, with defaults.
sub new_pod
{
	my ($self, $pod) = @_;
	my $spec = $pod->{spec};

	refuse(422, 'Invalid', 'spec.containers: Required value')
	  unless ref $spec eq 'HASH' && ref $spec->{containers} eq 'ARRAY'
	  && @{ $spec->{containers} };
	refuse(422, 'Invalid', 'spec.nodeName: cannot be set until all schedulingGates have been cleared')
	  if $spec->{nodeName} && @{ $spec->{schedulingGates} || [] };
	$self->check_resources($_)
	  foreach @{ $spec->{containers} }, @{ $spec->{initContainers} || [] };
	check_deadline($spec);
	refuse(400, 'BadRequest', 'json: cannot unmarshal into int64')
	  if grep { defined $spec->{$_} && !is_count($spec->{$_}) } qw(terminationGracePeriodSeconds activeDeadlineSeconds);
	$spec->{restartPolicy} //= 'Always';
	$spec->{terminationGracePeriodSeconds} //= 30;
	$pod->{status} = { phase => 'Pending', qosClass => 'BestEffort' };
	$pod->{status}{conditions} = [
		{   type => 'PodScheduled', status => 'False', reason => 'SchedulingGated',
			message => 'Scheduling is blocked due to non-empty scheduling gates' } ]
	  if @{ $spec->{schedulingGates} || [] };
	return;
}

sub check_resources
{
	my ($self, $container) = @_;
	my $resources = $container->{resources} ||= {};
	my ($limit, $request) =
	  map { $resources->{$_}{ $self->{resource} } } qw(limits requests);

	foreach my $quantity (grep { defined } $limit, $request)
	{
		refuse(422, 'Invalid', "resources: Invalid value: \"$quantity\": must be an integer")
		  unless !ref $quantity && $quantity =~ /^\d+[kMG]?$/;
	}
	refuse(422, 'Invalid', "Limit must be set for non overcommitable resources")
	  if defined $request && !defined $limit;
	refuse(422, 'Invalid', "requests must be equal to $self->{resource} limit")
	  if defined $request && "$request" ne "$limit";
	$resources->{requests}{ $self->{resource} } = $limit if defined $limit;
	return;
}

sub check_deadline
{
	my ($spec) = @_;
	my $seconds = $spec->{activeDeadlineSeconds};

	refuse(422, 'Invalid', 'spec.activeDeadlineSeconds: must be between 1 and 2147483647')
	  if defined $seconds && ($seconds !~ /^\d+$/ || $seconds < 1 || $seconds > 2147483647);
	return;
}

# A whole new version from a client.
sub replace
{
	my ($self, $plural, $space, $name, $new, $part) = @_;
	my $old  = $self->get($plural, $space, $name);
	my $meta = $new->{metadata};

	refuse(409, 'Conflict', "Operation cannot be fulfilled on $plural \"$name\": the object has been modified; please apply your changes to the latest version and try again")
	  if defined $meta->{resourceVersion} && $meta->{resourceVersion} ne ''
	  && $meta->{resourceVersion} ne $old->{metadata}{resourceVersion};
	refuse(409, 'Conflict', 'Precondition failed: UID in precondition')
	  if defined $meta->{uid} && $meta->{uid} ne $old->{metadata}{uid};
	refuse(422, 'Invalid', 'metadata.name: field is immutable')
	  if ($meta->{name} // $name) ne $name
	  || ($meta->{namespace} // $space // '') ne ($space // '');
	if ($part eq 'status')
	{
		my $whole = copy($old);

		$whole->{status} = $new->{status};
		$new = $whole;
	}
	else
	{
		check_annotations($meta);
		$new->{status} = $old->{status}
		  if $plural =~ /^(?:pods|workloads|admissionchecks)$/;
		$self->check_pod_change($old, $new) if $plural eq 'pods';
		foreach (qw(uid creationTimestamp deletionTimestamp deletionGracePeriodSeconds))
		{
			delete $meta->{$_};
			$meta->{$_} = $old->{metadata}{$_} if defined $old->{metadata}{$_};
		}
		my %had = map { $_ => 1 } @{ $old->{metadata}{finalizers} || [] };

		refuse(422, 'Invalid', 'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted')
		  if $meta->{deletionTimestamp} && grep { !$had{$_} } @{ $meta->{finalizers} || [] };
	}
	$new->{apiVersion} = $old->{apiVersion};
	$new->{kind} = $old->{kind};
	$new->{metadata}{name} = $name;
	$new->{metadata}{namespace} = $space if $KIND{$plural}[3];
	return $old if same({ %$old, metadata => { %{ $old->{metadata} }, resourceVersion => 0 } },
		{ %$new, metadata => { %{ $new->{metadata} }, resourceVersion => 0 } });
	return $self->remove($plural, $new)
	  if $new->{metadata}{deletionTimestamp} && !@{ $new->{metadata}{finalizers} || [] }
	  && !($new->{metadata}{deletionGracePeriodSeconds} // 0);
	return $self->put($plural, $new, 'MODIFIED');
}

sub same
{
	return $json->encode($_[0]) eq $json->encode($_[1]);
}

# A scheduler's choice.
sub bind_pod
{
	my ($self, $space, $name, $node) = @_;
	my $pod = copy($self->get('pods', $space, $name));

	refuse(409, 'Conflict', "pod $name is already assigned to node \"$pod->{spec}{nodeName}\"")
	  if defined $pod->{spec}{nodeName};
	refuse(409, 'Conflict', "pod $name has non-empty .spec.schedulingGates")
	  if @{ $pod->{spec}{schedulingGates} || [] };
	$pod->{spec}{nodeName} = $node;
	return $self->put('pods', $pod, 'MODIFIED');
}

# What of a pod may change, and when.
sub check_pod_change
{
	my ($self, $old, $new) = @_;
	my %was   = map { $_->{name} => 1 } @{ $old->{spec}{schedulingGates} || [] };
	my $gated = %was;

	refuse(422, 'Invalid', 'spec.schedulingGates: Forbidden: only deletion is allowed')
	  if grep { !$was{ $_->{name} } } @{ $new->{spec}{schedulingGates} || [] };
	my %selector = %{ $new->{spec}{nodeSelector} || {} };

	foreach (keys %{ $old->{spec}{nodeSelector} || {} })
	{
		refuse(422, 'Invalid', 'spec.nodeSelector: Invalid value: only additions to nodeSelector are allowed')
		  unless defined $selector{$_} && $selector{$_} eq $old->{spec}{nodeSelector}{$_};
		delete $selector{$_};
	}
	refuse(422, 'Invalid', 'spec: Forbidden: pod updates may not change fields other than `spec.activeDeadlineSeconds`')
	  if %selector && !$gated;
	refuse(422, 'Invalid', 'spec.affinity: Forbidden: no additions/deletions to the terms of a required node affinity are allowed')
	  unless $gated ? narrower($old, $new) : same($old->{spec}{affinity}, $new->{spec}{affinity});
	check_deadline($new->{spec});
	my ($before, $after) = map { $_->{spec}{activeDeadlineSeconds} } $old, $new;

	refuse(422, 'Invalid', 'spec.activeDeadlineSeconds: must be less than or equal to previous value')
	  if defined $before && (!defined $after || $after > $before);
	my ($a, $b) = map {
		my %rest = %{ $_->{spec} };

		delete @rest{qw(schedulingGates nodeSelector activeDeadlineSeconds tolerations affinity)};
		\%rest;
	} $old, $new;

	refuse(422, 'Invalid', 'spec: Forbidden: pod updates may not change fields other than `spec.activeDeadlineSeconds`')
	  unless same($a, $b);
	return;
}

# Does a gated pod's affinity have the terms that it had, with expressions added
# at most?
sub narrower
{
	my ($was, $is) = map {
		my $affinity = copy($_->{spec}{affinity} // {});
		my $terms = delete $affinity->{nodeAffinity}{requiredDuringSchedulingIgnoredDuringExecution};

		[ $affinity->{nodeAffinity}, ($terms || {})->{nodeSelectorTerms} ];
	} @_;

	return 1 unless defined $was->[1];
	return 0 if @{ $was->[1] } != @{ $is->[1] || [] };
	foreach my $i (keys @{ $was->[1] })
	{
		my @before = @{ $was->[1][$i]{matchExpressions} || [] };
		my @after  = @{ $is->[1][$i]{matchExpressions}  || [] };

		return 0 if @after < @before || !same(\@before, [ @after[ 0 .. $#before ] ]);
		return 0 if @after && !@before && !$was->[1][$i]{matchFields};
	}
	return 1;
}

sub remove
{
	my ($self, $plural, $object) = @_;

	return $self->put($plural, copy($object), 'DELETED');
}

# A client's DELETE: a pod that runs gets its grace.
sub delete_one
{
	my ($self, $plural, $space, $name, $options) = @_;
	my $object = copy($self->get($plural, $space, $name));
	my $meta   = $object->{metadata};
	my $wanted = $options->{preconditions}{uid};
	my $grace  = 0;

	refuse(409, 'Conflict', "Precondition failed: UID in precondition: $wanted, UID in object meta: $meta->{uid}")
	  if defined $wanted && $wanted ne $meta->{uid};
	if ($plural eq 'pods')
	{
		$grace = $options->{gracePeriodSeconds}
		  // $object->{spec}{terminationGracePeriodSeconds};
		$grace = 0
		  if !defined $object->{spec}{nodeName}
		  || $object->{status}{phase} =~ /^(?:Succeeded|Failed)$/;
		$grace = $meta->{deletionGracePeriodSeconds}
		  if defined $meta->{deletionTimestamp}
		  && $meta->{deletionGracePeriodSeconds} < $grace;
	}
	return $self->remove($plural, $object)
	  if $grace == 0 && !@{ $meta->{finalizers} || [] };
	$meta->{deletionTimestamp} = stamp(time() + $grace);
	$meta->{deletionGracePeriodSeconds} = $grace + 0;
	return $self->put($plural, $object, 'MODIFIED');
}

sub patch
{
	my ($self, $plural, $space, $name, $type, $patch, $part) = @_;
	my $object = copy($self->get($plural, $space, $name));

	if ($type =~ /json-patch/)
	{
		refuse(400, 'BadRequest', 'a JSON patch is a list') if ref $patch ne 'ARRAY';
		$object = json_patch($object, $_) foreach @$patch;
	}
	else
	{
		refuse(400, 'BadRequest', 'a merge patch is an object') if ref $patch ne 'HASH';
		merge($object, $patch);
	}
	return $self->replace($plural, $space, $name, $object, $part);
}

sub merge
{
	my ($object, $patch) = @_;

	foreach my $name (keys %$patch)
	{
		my $value = $patch->{$name};

		if (!defined $value)
		{
			delete $object->{$name};
		}
		elsif (ref $value eq 'HASH')
		{
			$object->{$name} = {} if ref $object->{$name} ne 'HASH';
			merge($object->{$name}, $value);
		}
		else
		{
			$object->{$name} = $value;
		}
	}
	return;
}

# One operation of RFC 6902.
sub json_patch
{
	my ($object, $op) = @_;
	my $bad  = sub { refuse(422, 'Invalid', "the server rejected our request: $_[0]") };
	my @path = map { s{~1}{/}gr =~ s{~0}{~}gr } split m{/}, $op->{path} // '', -1;
	my $at   = $object;

	shift @path;
	my $last = pop @path;

	foreach (@path)
	{
		$at = ref $at eq 'ARRAY' ? $at->[$_] : ref $at eq 'HASH' ? $at->{$_} : undef;
		$bad->("missing path $op->{path}") unless ref $at;
	}
	my $list = ref $at eq 'ARRAY';
	my $is   = $list ? ($last =~ /^\d+$/ ? $at->[$last] : undef) : $at->{$last};

	if ($op->{op} eq 'test')
	{
		$bad->("testing path $op->{path} failed")
		  unless same([$is], [ $op->{value} ]);
	}
	elsif ($op->{op} eq 'remove')
	{
		$bad->("missing path $op->{path}") unless defined $is;
		$list ? splice(@$at, $last, 1) : delete $at->{$last};
	}
	elsif ($op->{op} eq 'replace' || $op->{op} eq 'add')
	{
		$bad->("missing path $op->{path}")
		  if $op->{op} eq 'replace' && !defined $is;
		if (!$list) { $at->{$last} = $op->{value} }
		elsif ($last eq '-') { push @$at, $op->{value} }
		elsif ($op->{op} eq 'add') { splice(@$at, $last, 0, $op->{value}) }
		else { $at->[$last] = $op->{value} }
	}
	else
	{
		$bad->("unknown operation $op->{op}");
	}
	return $object;
}

1;
