package GpuCreditDemo::Books;

# Books.pm - checks where every credit is at the end, and that none is missing.
#
# The figures come from the public functions balance() and buckets(), and are
# compared with what the demo itself bought and was billed.

use strict;
use warnings;
use GpuCreditDemo::Money qw(micro credits);

our @COMPARTMENTS = qw(available held spent expired revoked moved);

# Reads all buckets and balances of the plan's accounts.
sub new
{
    my ($class, %opt) = @_;
    my $db = $opt{db};
    my %org;
    for my $entry (@{ $opt{accounts} })
    {
        my ($org, $account) = @$entry;
        my $balance = $db->call('balance', $org, $account);
        $org{$org}{balance}{$account} = $balance->[0] if $balance;
        for my $bucket (@{ $db->call('buckets', $org, $account) || [] })
        {
            $org{$org}{bucket}{ $bucket->{bucket} } = $bucket;
        }
    }
    return bless { org => \%org, accounts => $opt{accounts} }, $class;
}

# The organisations, each with its sums over all its buckets.
sub sums
{
    my ($self) = @_;
    my @sums;
    for my $org (sort keys %{ $self->{org} })
    {
        my %sum = map { $_ => 0 } 'issued', @COMPARTMENTS;
        for my $bucket (values %{ $self->{org}{$org}{bucket} })
        {
            $sum{$_} += micro($bucket->{$_}) for keys %sum;
        }
        $sum{accounted} = 0;
        $sum{accounted} += $sum{$_} for @COMPARTMENTS;
        push @sums, { org => $org, %sum };
    }
    return @sums;
}

# The checks on one organisation's sums, as [text, held, why not].
# bought and billed: what the demo itself counted, in micro-credits.
sub checks
{
    my ($self, $sum, $bought, $billed) = @_;
    my $org     = $sum->{org};
    my $balance = $self->{org}{$org}{balance}{''} || {};
    return (
        _same("issued = " . join(' + ', @COMPARTMENTS), $org,
            $sum->{issued}, $sum->{accounted}),
        _same('issued = bought', $org, $sum->{issued}, $bought),
        _same('spent = every bill as the demo computes it', $org,
            $sum->{spent}, $billed),
        _same('balance() and buckets() agree on spent', $org,
            micro($balance->{spent} // '0'), $sum->{spent}),
        _same('balance() and buckets() agree on held', $org,
            micro($balance->{held} // '0'), $sum->{held}),
    );
}

# Users and what they spent, most first.
sub spenders
{
    my ($self) = @_;
    my @spenders;
    for my $entry (@{ $self->{accounts} })
    {
        my ($org, $account) = @$entry;
        next if $account !~ m{/};
        my $balance = $self->{org}{$org}{balance}{$account} or next;
        my $spent   = micro($balance->{spent});
        push @spenders, [ "$org/$account", $spent ] if $spent > 0;
    }
    return sort { $b->[1] <=> $a->[1] || $a->[0] cmp $b->[0] } @spenders;
}

# A check that two amounts are the same.
sub _same
{
    my ($text, $org, $one, $other) = @_;
    return [ "$org: $text", $one == $other,
        credits($one) . ' against ' . credits($other) ];
}

1;
