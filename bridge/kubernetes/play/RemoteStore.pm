# RemoteStore.pm: another API server, as Cluster.pm looks at its store
#
# The scheduler's and the kubelets' calls, with an administrator's token.
package RemoteStore;

use strict;
use warnings;

use HTTP::Tiny;
use JSON::XS;
use Time::HiRes 'sleep';

my $json = JSON::XS->new->utf8->canonical;

sub new
{
	my ($class, $url, $token, $resource) = @_;

	return bless {
		url      => $url,
		resource => $resource,
		http     => HTTP::Tiny->new(timeout => 20, verify_SSL => 0, default_headers => {
			Authorization => "Bearer $token" }),
	}, $class;
}

# A call, made again while the server is away; undef of an object that is gone.
sub call
{
	my ($self, $method, $path, $body, $type) = @_;
	my $answer;

	foreach (1 .. 100)
	{
		$answer = $self->{http}->request($method, "$self->{url}$path", {
			headers => { 'Content-Type' => $type || 'application/json' },
			defined $body ? (content => $json->encode($body)) : () });
		last if $answer->{status} < 500 && $answer->{status} != 429;
		sleep 0.3;
	}
	return $json->decode($answer->{content}) if $answer->{success};
	return if $answer->{status} == 404 || $answer->{status} == 409;
	die "$method $path: $answer->{status} $answer->{content}\n";
}

sub path
{
	my ($plural, $object) = @_;
	my $space = $object->{metadata}{namespace};

	return '/api/v1/' . (defined $space ? "namespaces/$space/" : '')
	  . "$plural/$object->{metadata}{name}";
}

sub all
{
	my ($self, $plural) = @_;

	return map { { object => $_ } } @{ $self->call('GET', "/api/v1/$plural")->{items} };
}

sub get
{
	my ($self, $plural, undef, $name) = @_;

	return $self->call('GET', "/api/v1/$plural/$name");
}

# A pod that is bound, or what a kubelet says of a pod or a node.
sub put
{
	my ($self, $plural, $object) = @_;
	my $path   = path($plural, $object);
	my $meta   = $object->{metadata};
	my %status = %{ $object->{status} };

	delete $status{qosClass};
	if ($plural eq 'pods' && !$self->{bound}{ $meta->{uid} })
	{
		$self->bind($path, $object) or return $object;
		$self->{bound}{ $meta->{uid} } = 1;
	}
	return $self->call('PATCH', "$path/status", { status => \%status },
		'application/merge-patch+json') || $object;
}

# Binds a pod to its node; false: it cannot be.  An earlier call may have bound
# it, and its answer was lost.
sub bind
{
	my ($self, $path, $pod) = @_;
	my $node = $pod->{spec}{nodeName};

	return 1 if $self->call('POST', "$path/binding", {
		apiVersion => 'v1', kind => 'Binding', metadata => { name => $pod->{metadata}{name} },
		target => { apiVersion => 'v1', kind => 'Node', name => $node } });
	my $now = $self->call('GET', $path) or return 0;

	return $now->{metadata}{uid} eq $pod->{metadata}{uid} && ($now->{spec}{nodeName} // '') eq $node;
}

sub delete_one
{
	my ($self, $plural, $space, $name, $options) = @_;

	return $self->call('DELETE', "/api/v1/namespaces/$space/$plural/$name", $options);
}

1;
