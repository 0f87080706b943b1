package GpuCreditDemo::Progress;

# Progress.pm - a progress bar on stderr: redrawn on a terminal, otherwise a
# line each tenth of the way.

use strict;
use warnings;
use IO::Handle;
use Time::HiRes qw(time);

use constant WIDTH => 40;

sub new
{
    my ($class, $label) = @_;
    STDERR->autoflush(1);
    return bless {
        label => $label, tty => -t STDERR ? 1 : 0, drawn => 0,
        tenth => 0, started => time
    }, $class;
}

# Shows how far (0 to 1) the replay has come and which day is being played.
sub show
{
    my ($self, $share, $second) = @_;
    my $now = time;
    if ($self->{tty})
    {
        return if $now - $self->{drawn} < 0.1;
        $self->{drawn} = $now;
        my $full = int($share * WIDTH);
        printf STDERR "\r%s [%s%s] %3d %%  %s  %.0f s ", $self->{label},
            '#' x $full, '.' x (WIDTH - $full), $share * 100,
            _clock($second), $now - $self->{started};
        return;
    }
    my $tenth = int($share * 10 + 1e-9);
    return if $tenth <= $self->{tenth};
    $self->{tenth} = $tenth;
    printf STDERR "%s: %3d %%, simulated %s, %.1f s\n", $self->{label},
        $tenth * 10, _clock($second), $now - $self->{started};
    return;
}

# Clears the bar away.
sub finish
{
    my ($self) = @_;
    print STDERR "\r\e[K" if $self->{tty};
    return;
}

# A simulated second as day and time of day.
sub _clock
{
    my ($second) = @_;
    return sprintf 'day %d %02d:%02d', $second / 86_400,
        $second / 3600 % 24, $second / 60 % 60;
}

1;
