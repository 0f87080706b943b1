# Rights.pm: who may do what in the play API server
#
# Tokens are those of a file, as kube-apiserver's --token-auth-file: token, and
# perhaps user, number, groups.  A user who is not of system:masters may do what
# ClusterRoles say that are bound to the name.
package Rights;

use strict;
use warnings;

use Store;

my %VERB = (POST => 'create', PUT => 'update', PATCH => 'patch', DELETE => 'delete');

sub new
{
	my ($class, $store, $file) = @_;

	return bless { store => $store, file => $file }, $class;
}

# Refuses a request of somebody unknown (401), or without the right (403).
sub check
{
	my ($self, $head, $method, $path, $watches) = @_;

	return if !defined $self->{file} || $path =~ m{^/play};
	my ($token) = $head =~ /^authorization:\s*Bearer (\S+)/im;
	my ($line) = grep { /^\Q$token\E(?:,|$)/ } defined $token ? $self->tokens : ();

	Store::refuse(401, 'Unauthorized', 'Unauthorized') unless defined $line;
	my (undef, $user, undef, $groups) = split /,/, $line, 4;
	my ($plural, undef, $name, $part) = Store::parts($path);

	return if !defined $user || ($groups // '') =~ /system:masters/ || !defined $plural;
	my $verb = $VERB{$method} || (defined $name ? 'get' : $watches ? 'watch' : 'list');

	$plural .= "/$part" if $part ne '';
	my $group = $Store::KIND{ $plural =~ s{/.*}{}r }[0];

	Store::refuse(403, 'Forbidden', qq{User "$user" cannot $verb resource "$plural" in API group "$group"})
	  unless grep {
		has($_->{apiGroups}, $group) && has($_->{resources}, $plural) && has($_->{verbs}, $verb)
		  && (!$_->{resourceNames} || has($_->{resourceNames}, $name // ''))
	  }
	  $self->rules_of($user);
	return;
}

sub tokens
{
	my ($self) = @_;

	open(my $file, '<', $self->{file}) or return;
	return map { s/\s+$//r } <$file>;
}

sub rules_of
{
	my ($self, $user) = @_;

	return map { @{ ($self->{store}->find('clusterroles', '', $_->{roleRef}{name}) || {})->{rules} || [] } }
	  grep { grep { $_->{kind} eq 'User' && $_->{name} eq $user } @{ $_->{subjects} || [] } }
	  map { $_->{object} } $self->{store}->all('clusterrolebindings');
}

sub has
{
	my ($list, $word) = @_;

	return grep { $_ eq $word } @{ $list || [] };
}

1;
