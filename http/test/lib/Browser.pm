# Browser.pm: a browser without scripts: it keeps cookies and follows redirects
package Browser;

use strict;
use warnings;

use HTTP::Tiny;

# Cookies are kept for a host and port, and sent to the paths that they are for.
sub new
{
	my ($class) = @_;

	return bless { cookies => {}, seen => [] }, $class;
}

sub cookies_for
{
	my ($self, $url) = @_;
	my ($site, $path) = $url =~ m{^https?://([^/]+)([^?]*)};
	my $jar = $self->{cookies}{$site} // {};

	return join('; ', map { "$_->{name}=$_->{value}" }
		  grep { index($path, $_->{path}) == 0 } sort { $a->{name} cmp $b->{name} } values %$jar);
}

sub keep_cookies
{
	my ($self, $url, $headers) = @_;
	my ($site, $path) = $url =~ m{^https?://([^/]+)([^?]*)};
	my $set = $headers->{'set-cookie'} // [];

	foreach my $line (ref $set ? @$set : $set)
	{
		my ($name, $value) = $line =~ /^([^=]+)=([^;]*)/;
		my $for = $line =~ /;\s*path=([^;]+)/i ? $1 : '/';

		if ($value eq '' || $line =~ /max-age=0|expires=Thu, 01 Jan 1970/i)
		{
			delete $self->{cookies}{$site}{"$name $for"};
		}
		else
		{
			$self->{cookies}{$site}{"$name $for"} = { name => $name, value => $value, path => $for };
		}
	}
	return;
}

# One request, without following where it leads.
sub visit
{
	my ($self, $method, $url, $form, %more) = @_;
	my $cookies = $self->cookies_for($url);
	my %headers = ($cookies ne '' ? (cookie => $cookies) : (), accept => 'text/html', %more,
		defined $form ? ('content-type' => 'application/x-www-form-urlencoded') : ());
	my $answer = HTTP::Tiny->new(timeout => 60, max_redirect => 0)->request($method, $url,
		{ headers => \%headers, defined $form ? (content => $form) : () });

	push @{ $self->{seen} }, $url;
	$self->keep_cookies($url, $answer->{headers});
	return $answer;
}

# Follows redirects until there are none, or one leads to what $until matches.
sub follow
{
	my ($self, $method, $url, $form, $until) = @_;
	my $answer;

	for (1 .. 20)
	{
		$answer = $self->visit($method, $url, $form);
		my $to = $answer->{headers}{location} or last;

		($method, $form) = ('GET', undef);
		$to = ($url =~ m{^(https?://[^/]+)})[0] . $to if $to =~ m{^/};
		$url = $to;
		last if defined $until && $url =~ $until;
	}
	$self->{url} = $url;
	return $answer;
}

1;
