#!/usr/bin/perl
# check_proof.pl: is a row of gpucredit's audit log what was sealed?
#
#   psql -XAt -c "SELECT to_json(p) FROM gpucredit.audit_proof(17) p" |
#     perl check_proof.pl SEAL
#
# Reads one proof as JSON, computes the seal from the row's text with nothing
# but SHA-256, and compares it with SEAL, a published one in hex.  Shares no
# code with what made the proof.  Exit status: 0 it is, 1 it is not.

use strict;
use warnings;
use Digest::SHA 'sha256';
use JSON::PP;

my ($published) = @ARGV or die "usage: check_proof.pl SEAL\n";
my $proof = decode_json(do { local $/ = undef; <STDIN> });
my $got   = eval { seal_of($proof) } // "no proof: $@";

if ($got eq lc $published)
{
	print "sealed\n";
	exit 0;
}
print "not what was sealed: $got\n";
exit 1;

sub digest_from
{
	my ($hex) = @_;

	return pack('H*', $hex =~ s/^\\x//r);
}

# From the leaf up: a left child is joined with its right neighbour, a right
# child with its left one.  A node alone at the end of a level goes up as it is.
sub root_of
{
	my ($proof) = @_;
	my @path  = map { digest_from($_) } @{ $proof->{path} };
	my $index = $proof->{leaf_index};
	my $width = $proof->{leaves};
	my $leaf  = $proof->{leaf};

	utf8::encode($leaf);
	my $digest = sha256("\0" . $leaf);
	for (; $width > 1; $index >>= 1, $width = ($width + 1) >> 1)
	{
		next if ($index ^ 1) >= $width;
		my $other = shift @path // die "the path is too short\n";
		$digest =
		  sha256("\1" . ($index & 1 ? $other . $digest : $digest . $other));
	}
	die "the path is too long\n" if @path;
	return $digest;
}

sub seal_of
{
	my ($proof) = @_;

	return unpack('H*',
		sha256(digest_from($proof->{previous})
			  . root_of($proof)
			  . $proof->{header}));
}
