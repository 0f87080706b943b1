# reference.pl: the page that evals/tools/reference writes has every function and error code
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = eval_node('reference');
my ($page, $errors);

ok(IPC::Run::run([ 'env', 'PGHOST=' . $node->host, 'PGPORT=' . $node->port, 'PGDATABASE=eval', 'perl',
			"$FindBin::RealBin/../tools/reference.pl" ], '<', \undef, '>', \$page, '2>', \$errors), 'the page is made')
  or diag($errors);
my @granted = split /\n/, query($node, 'eval', q{
	SELECT DISTINCT p.proname FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
	WHERE p.pronamespace = 'gpucredit_eval'::regnamespace AND a.grantee <> p.proowner ORDER BY 1});
cmp_ok(scalar(@granted), '>', 40, 'roles may call functions');
is(join(' ', grep { $page !~ /^### $_$/m } @granted), '', 'each of which is listed');
my %codes = map { $_ => 1 } split /\n/, query($node, 'eval', q{
	SELECT DISTINCT (regexp_matches(coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid)), 'UC6\d\d', 'g'))[1]
	FROM pg_proc p WHERE p.pronamespace = 'gpucredit_eval'::regnamespace});
is(join(' ', sort keys %codes), 'UC601 UC602 UC603 UC604', 'the codes of the extension');
is(join(' ', grep { $page !~ /^\| $_ \| \w/m } keys %codes), '', 'are listed, too');
done_testing();
