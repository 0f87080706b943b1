# readme.pl: README.md's commands work on a Debian 12 that has nothing yet
#
# Each block marked sh or sql is taken from the page and pasted unchanged into a
# shell of root, or into psql: the demos ("Try it"), Install, and the Tour, with
# the background worker off and on.  One machine has /sys and runs them in the
# page's order.  The other has no /sys and starts no services, as a container
# does, and begins with Install, so that neither needs the other.

use strict;
use warnings;
use File::Temp;
use FindBin;
use Test::More;

my $root = "$FindBin::RealBin/../..";

plan skip_all => 'only root can enter another Debian' if $> != 0;
plan skip_all => 'this machine lets nobody have mounts of his own'
  if system('unshare --mount --pid --fork true 2>/dev/null') != 0;

my %section;
{
	open(my $page, '<', "$root/README.md") or die "README.md: $!\n";
	local $/;
	my $name = 'Try it';

	foreach my $part (split /^(?=## )/m, <$page>)
	{
		$name = $1 if $part =~ /^## (.*)/;
		push @{ $section{$name}{$1} }, $2
		  while $part =~ /^```(sh|sql)\n(.*?)^```$/msg;
	}
}
is(scalar @{ $section{'Try it'}{sh} },  1, 'Try it has one block of commands');
is(scalar @{ $section{Install}{sh} }, 2, 'Install has two: without and with preloading');
is(scalar @{ $section{Tour}{sql} }, 1, 'the Tour is one block');

my $demos = $section{'Try it'}{sh}[0];
my ($install, $preload) = @{ $section{Install}{sh} };
my $tour = $section{Tour}{sql}[0];
my @shown = map { /^-- ?(.*)/ ? $1 : () } grep { !/^-- \d\. / } split /\n/, $tour;

cmp_ok(scalar @shown, '>=', 15, 'which shows what it prints');

# Removes what the Tour made, so that it can be pasted again.
my $again = "dropdb tour\n";
my @check = (sh => <<'END');
psql -d mydb -XAtc "SELECT value FROM gpucredit.metrics WHERE name = 'gpucredit_preloaded'"
psql -d mydb -XAtc "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gpucredit scheduler' AND datname = 'mydb'"
psql -d tour -XAtc "SELECT 'verify: ' || count(*) FROM gpucredit.verify()"
END

machine('with /sys', [],
	'the demos run'         => [ sh   => $demos ],
	'Install works'         => [ sh   => $install ],
	'the Tour, no worker'   => [ psql => $tour ],
	'the Tour is removed'   => [ sh   => $again ],
	'preloading works'      => [ sh   => $preload ],
	'the Tour, worker on'   => [ psql => $tour ],
	'the server is as told' => \@check);

machine('without /sys and services', [ '--no-sys', '--no-services' ],
	'Install works'         => [ sh   => $install ],
	'preloading works'      => [ sh   => $preload ],
	'the Tour, worker on'   => [ psql => $tour ],
	'the server is as told' => \@check,
	'the demos run'         => [ sh   => $demos ]);
done_testing();

# Runs named steps in a new Debian, and looks at what each printed.
sub machine
{
	my ($kind, $options, @steps) = @_;
	my $folder = File::Temp->newdir;
	my $n      = 0;
	my @names;

	while (my ($name, $step) = splice(@steps, 0, 2))
	{
		my $file = sprintf('%s/%02d', $folder, ++$n);

		push @names, [ $name, $file ];
		open(my $out, '>', "$file.$step->[0]") or die "$file: $!\n";
		print $out $step->[1];
		close($out) or die "$file: $!\n";
	}
	system("$root/tools/lib/bare.sh", @$options, "$folder");
	foreach my $step (@names)
	{
		my ($name, $file) = @$step;
		my $out    = text("$file.out");
		my $status = text("$file.status");

		is($status, "0\n", "$kind: $name") or diag(last_lines($out));
		ok($out =~ /^all \d+ checks hold$/m
			  && $out =~ /^Every bill is the seconds that really ran, and the books balance\.$/m,
			"$kind: both to their end") if $name =~ /demos/;
		is(printed($out), join("\n", map { s/ +$//r } @shown), "$kind: $name: prints what it shows")
		  if $name =~ /Tour, /;
		is($out, "1\n1\nverify: 0\n", "$kind: preloaded, with a worker; verify() is empty")
		  if $name =~ /as told/;
	}
	return;
}

# What the Tour's queries printed after the first one, whose result is not shown.
sub printed
{
	my ($out) = @_;
	my @lines = grep { !/^(?:\(\d+ rows?\)|)$/ } map { s/ +$//r } split /\n/, $out;

	shift @lines while @lines && $lines[0] ne ($shown[0] =~ s/ +$//r);
	return join("\n", grep { !/^SET$/ } @lines);
}

sub last_lines
{
	my @lines = split /\n/, $_[0];

	splice(@lines, 0, -40) if @lines > 40;
	return join("\n", @lines);
}

sub text
{
	my ($path) = @_;

	open(my $file, '<', $path) or return '';
	local $/;
	return scalar <$file> // '';
}
