# 092_report.pl: report_html() in a browser
#
# Chromium opens the page as on a phone (360 pixels wide) and on a desk, in
# light and dark mode.  A script that only this test adds measures that nothing
# is wider than the screen and no text is too small or faint.  It reads the
# numbers that a reader sees, which are compared with other functions of the
# ledger.  With GC_PICTURES=1 a picture of each view stays in the test's folder.
#
# Long: it starts a browser several times
# Packages: chromium fonts-dejavu-core poppler-utils

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my ($chromium) = grep { -x } map { "$_/chromium" } split /:/, $ENV{PATH};
plan skip_all => 'no chromium here' unless $chromium;

my $folder = "$PostgreSQL::Test::Utils::tmp_check/report";
mkdir $folder;
my $node = new_node('main');
new_database($node, 'credit', 'gpucredit_report');
fill();

# The whole installation, one organisation, and one that never did anything.
my %sql = (
	all  => 'SELECT gpucredit.report_html()',
	acme => q{SELECT gpucredit.report_html('acme')},
	none => q{SELECT gpucredit.report_html('idle', gpucredit.now() - interval '400 days')});
my %page   = map { $_ => at_the_end($sql{$_}) } keys %sql;
my %ledger = ledger();

my @views = map { [ $_, 360 ], [ $_, 1100 ], $_ eq 'all' ? [ $_, 850 ] : () } sort keys %page;
check_pages($_) for 'light', 'dark';
print_it($_) foreach qw(acme all);
verify_empty($node, 'credit');
done_testing();

# Some days of work of three organisations, one with a name full of HTML.
sub fill
{
	query(
		$node, 'credit', q{
	SET gpucredit.clock = '2027-03-01 00:00+00';
	SET gpucredit.node_suspect = 0;
	SET gpucredit.node_lost = 0;
	DO $$
	DECLARE
		o text;
		j bigint;
		at timestamptz := '2027-03-01 00:00+00';
		evil text := '"><script>document.title = ''owned''<img src=x onerror=alert(1)>';
		deep text := 'a/' || repeat('long', 40);
	BEGIN
		PERFORM gpucredit.set_price('H100', 2.5), gpucredit.set_price('T4', 0.35);
		PERFORM gpucredit.register_node('default', 'h' || n, 'H100', 8, 81920)
		FROM generate_series(1, 2) n;
		PERFORM gpucredit.register_node('default', 't1', 'T4', 4, 16384);
		FOREACH o IN ARRAY ARRAY['acme', evil, 'idle'] LOOP
			PERFORM gpucredit.create_account(o), gpucredit.create_account(o, 'a'),
				gpucredit.create_account(o, deep), gpucredit.create_account(o, 'b');
			PERFORM gpucredit.issue(o, '', 'paid', 1234567.891234);
			PERFORM gpucredit.issue(o, 'a', 'promo', 500, 'promo', at + interval '20 days');
		END LOOP;
		FOR i IN 1 .. 60 LOOP
			at := at + interval '2 h 7 min';
			PERFORM set_config('gpucredit.clock', at::text, false);
			o := (ARRAY['acme', evil])[1 + i % 2];
			SELECT r.job INTO j
			FROM gpucredit.reserve(o, (ARRAY['a', 'b', deep])[1 + i % 3], 'job' || i,
				(ARRAY['4xH100', '1xT4', '8xH100'])[1 + i / 7 % 3], '10 h',
				(ARRAY['interactive', 'standard_training'])[1 + i / 2 % 2]) r;
			PERFORM set_config('gpucredit.clock', (at + i * interval '3 s')::text, false);
			PERFORM gpucredit.place();
			PERFORM set_config('gpucredit.clock', (at + interval '2 h')::text, false);
			PERFORM gpucredit.settle(o, j, 1, 'completed', interval '1 h' + i * interval '17.123 s');
			IF i % 20 = 0 THEN
				PERFORM gpucredit.refund(o, j, 'refund' || i, 0.123456, 'test');
			END IF;
		END LOOP;
		PERFORM gpucredit.reserve('acme', 'b', 'waits' || i, '8xH100', '10 h')
		FROM generate_series(1, 5) i;
		PERFORM gpucredit.hold('acme', 'b', 'hold', 77.7, '30 days');
	END
	$$});
	return;
}

sub at_the_end
{
	my ($sql) = @_;

	return query($node, 'credit',
		"SET gpucredit.clock = '2027-03-08 00:00+00'; SET timezone = 'UTC'; $sql");
}

# The same figures by organisation, from functions that the report does not
# use.
sub ledger
{
	my %is;
	my $rows = at_the_end(
		q{SELECT o.org, coalesce(sum(u.net), 0.000000), coalesce(sum(u.spent), 0.000000),
			coalesce(sum(u.refunded), 0.000000),
			(SELECT sum(b.available) FROM (SELECT DISTINCT ON (b.bucket) b.available
				FROM gpucredit.account c, gpucredit.buckets(c.org, c.account) b
				WHERE c.org = o.org) b),
			(gpucredit.balance(o.org)).held
		FROM gpucredit.account o
			LEFT JOIN gpucredit.usage_by(o.org, '', NULL, NULL, 'account') u ON true
		WHERE o.account = '' GROUP BY o.org});

	foreach my $row (split /\n/, $rows)
	{
		my ($org, @figures) = split /\|/, $row;

		@{ $is{$org} }{qw(net spent refunded available held)} = @figures;
	}
	$is{acme}{$_} = at_the_end(
		"SELECT net FROM gpucredit.usage_by('acme', '', NULL, NULL, 'gpu_type') WHERE item = '$_'")
	  for 'H100', 'T4';
	return %is;
}

# Opens each page in a frame of each width, all at once since starting a browser
# is what costs, and checks what was measured in them.
sub check_pages
{
	my ($scheme) = @_;
	my $script   = slurp_checkout('test/report/measure.js');
	my $setting  = '--blink-settings=preferredColorScheme=' . ($scheme eq 'dark' ? 0 : 1);

	foreach my $name (keys %page)
	{
		my $page = $page{$name};

		$page =~ s{</body>}{<script>$script</script></body>} or die "no end of a body\n";
		write_file("$name.html", $page);
	}
	# a window is not made narrower than 500 pixels, a frame is
	write_file('frame.html', <<'END' . join('', map { frame(@$_) . '<pre></pre>' } @views));
<body style="margin:0"><script>
addEventListener('message', e => {
	for (const frame of document.querySelectorAll('iframe'))
		if (frame.contentWindow === e.source)
			frame.nextElementSibling.textContent = e.data;
});
</script>
END
	my $dom = chromium($setting, '--window-size=1100,6000', '--virtual-time-budget=10000',
		'--dump-dom');
	my @measured = $dom =~ m{<pre>(.*?)</pre>}gs;
	my %reference = (lt => '<', gt => '>', amp => '&', nbsp => ' ');

	foreach my $view (@views)
	{
		my ($name, $width) = @$view;
		my $what = "$name, $width pixels, $scheme";
		my $json = shift(@measured) // '';

		ok($json ne '', "$what: measured") or next;
		$json =~ s/&(lt|gt|amp|nbsp);/$reference{$1}/g;
		check_page($name, $width, $scheme, decode_json($json));
	}

	foreach my $view ($ENV{GC_PICTURES} ? @views : ())
	{
		my ($name, $width) = @$view;

		write_file('frame.html', '<body style="margin:0">' . frame($name, $width));
		chromium($setting, '--window-size=' . ($width < 600 ? 600 : $width) . ',6000',
			'--hide-scrollbars', "--screenshot=$folder/$name-$width-$scheme.png");
	}
	return;
}

sub frame
{
	my ($name, $width) = @_;

	return qq{<iframe src="$name.html" style="border:0;width:${width}px;height:6000px"></iframe>};
}

# Tests: what was measured in a page.
sub check_page
{
	my ($name, $width, $scheme, $seen) = @_;
	my $what = "$name, $width pixels, $scheme";

	is($seen->{dark} ? 'dark' : 'light', $scheme, "$what: that scheme it is");
	is_deeply($seen->{wide}, [], "$what: nothing is wider than the screen");
	cmp_ok($seen->{scroll}, '<=', $width, "$what: nothing to scroll sideways");
	cmp_ok($seen->{small},  '>=', 12,     "$what: no text below 12 pixels");
	is_deeply($seen->{faint}, [], "$what: text has a contrast of 4.5 or more");
	is_deeply($seen->{dim}, [], "$what: bars and lines one of 3 or more");
	is_deeply($seen->{mute}, [], "$what: each picture has a title and words");
	is_deeply($seen->{wrong}, [], "$what: what is read is what is given as data");
	is_deeply($seen->{wrapped}, [], "$what: no name of usual length is wrapped");
	is_deeply($seen->{hidden}, [], "$what: no words are over others in a picture");
	is_deeply($seen->{zero}, [], "$what: no column of zeros");
	is($seen->{scripts}, 1, "$what: no script but the test's");
	unlike($seen->{title}, qr/owned/, "$what: no name has become script");
	numbers($what, $name, $seen->{numbers});
	return;
}

# The numbers that were read, against the ledger's.
sub numbers
{
	my ($what, $name, $read) = @_;
	my @orgs = $name eq 'all' ? sort keys %ledger : $name eq 'none' ? 'idle' : $name;
	my %sum;

	$sum{ $_->{table} }{ $_->{key} } = $_->{value} for grep { $_->{sum} } @$read;
	my %total = map {
		my $key = $_;
		$key => query($node, 'credit', 'SELECT ' . join(' + ', map { $ledger{$_}{$key} } @orgs))
	} qw(net spent refunded available held);
	# a column that is all zero is not there
	is($sum{balances}{$_} // '0.000000', $total{$_}, "$what: $_") for qw(available held);
	return if $name eq 'none';
	is($sum{'spend-days'}{$_}, $total{$_}, "$what: $_ over time") for qw(net spent refunded);
	is($sum{"spend-by-$_"}{net}, $total{net}, "$what: net by $_") for qw(account type);
	foreach my $row (@$read)
	{
		is($row->{value}, $ledger{acme}{ $row->{type} }, "$what: net on $row->{type}")
		  if $name eq 'acme' && $row->{table} eq 'spend-by-type' && $row->{type};
		is($row->{value}, $ledger{ $row->{org} }{net}, "$what: net of an organisation")
		  if $name eq 'all' && $row->{table} eq 'spend-by-account' && $row->{org};
	}
	return;
}

# Tests: printed from dark mode, it is a few pages of dark on white with empty
# margins, and the paper has the same text.
sub print_it
{
	my ($name) = @_;
	my $pdf = "$folder/$name.pdf";

	write_file('frame.html', $page{$name});
	chromium("--print-to-pdf=$pdf", '--no-pdf-header-footer',
		'--blink-settings=preferredColorScheme=0');
	my @sheets = pictures($pdf);
	cmp_ok(scalar(@sheets), '>=', 2, "$name: printed on some pages");
	cmp_ok(scalar(@sheets), '<=', 10, "$name: but not on many");
	foreach my $n (1 .. @sheets)
	{
		my $sheet = $sheets[ $n - 1 ];

		cmp_ok($sheet->{dark}, '<', 0.25, "$name: page $n is not dark");
		cmp_ok($sheet->{dark}, '>', 0.0005, "$name: page $n is not empty");
		is($sheet->{edge}, 0, "$name: page $n has nothing in its margins");
	}

	# each word whole, and between the margins of 15 mm
	my $words = output_of('pdftotext', '-bbox', $pdf, '-');
	my @wide  = grep { $_->[0] < 42 || $_->[1] > $_->[2] - 42 } words($words);
	is_deeply(\@wide, [], "$name: no word is cut off");

	my $text = output_of('pdftotext', '-layout', $pdf, '-');
	my $bare = $text =~ s/\s+//gr;
	my ($last) = $page{$name} =~ m{<footer><p>(.*?)</p>}s;
	my @said = ($page{$name} =~ m{<h2[^>]*>(.*?)</h2>}gs, $last);
	s/<[^>]*>|\s+//g foreach @said;
	is_deeply([ grep { index($bare, $_) < 0 } @said ], [],
		"$name: every section is there, and the last line");
	my @orgs = $name eq 'all' ? sort keys %ledger : $name;
	foreach my $figure (qw(net spent refunded available held))
	{
		my $sum = query($node, 'credit', q{SELECT to_char(}
			  . join(' + ', map { $ledger{$_}{$figure} } @orgs)
			  . q{, 'FM999,999,999,999,990.000000')});

		like($text, qr/(?<![\d,.])\Q$sum\E(?!\d)/, "$name: $figure can be read: $sum");
	}
	return;
}

# For each page, the part darker than a middle grey, and how many points of its
# outermost 12 mm are not white.
sub pictures
{
	my ($pdf) = @_;
	my $points = 36;				# an inch
	my $margin = int(12 / 25.4 * $points);
	my @sheets;

	output_of('pdftoppm', '-gray', '-r', $points, $pdf, "$pdf-page");
	foreach my $file (sort glob("$pdf-page*.pgm"))
	{
		my ($width, $height, $grey) =
		  slurp_file($file) =~ /\AP5\s+(\d+)\s+(\d+)\s+255\s(.*)\z/s
		  or die "$file is no picture\n";
		my @rows = unpack("(a$width)*", $grey);
		my $edge = 0;

		foreach my $y (0 .. $#rows)
		{
			my $row = $rows[$y];

			$row = substr($row, 0, $margin) . substr($row, - $margin)
			  if $y >= $margin && $y < $height - $margin;
			$edge += $row =~ tr/\xff//c;
		}
		push @sheets,
		  { dark => ($grey =~ tr/\x00-\x7f//) / ($width * $height), edge => $edge };
	}
	return @sheets;
}

# The words of a PDF: where each begins and ends, how wide its page is, itself.
sub words
{
	my ($boxes) = @_;
	my ($page, @words);

	foreach (split /\n/, $boxes)
	{
		$page = $1 if /<page width="([\d.]+)"/;
		push @words, [ $1, $2, $page, $3 ]
		  if /<word xMin="([-\d.]+)".* xMax="([-\d.]+)".*?>(.*)<\/word>/;
	}
	die "no word in it\n" unless @words;
	return @words;
}

sub output_of
{
	my ($out, $err);

	IPC::Run::run(\@_, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(300))
	  or die "@_: $err";
	return $out;
}

# Opens the frame; what Chromium prints.
sub chromium
{
	my @command = (
		$chromium, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
		'--no-first-run', '--allow-file-access-from-files', "--user-data-dir=$folder/profile",
		@_, "file://$folder/frame.html");
	my ($out, $err);

	local $ENV{HOME} = $folder;
	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(300))
	  or diag($err);
	return $out // '';
}

sub write_file
{
	my ($name, $text) = @_;

	open(my $file, '>', "$folder/$name") or die "could not write $name: $!\n";
	print $file $text;
	close($file) or die "could not write $name: $!\n";
	return;
}
