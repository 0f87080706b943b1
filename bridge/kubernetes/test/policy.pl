# policy.pl: what the admission policies of packaging/kubernetes refuse, and what
# they let pass, evaluated as CEL
#
# Packages: npm:nodejs npm:npm

use strict;
use warnings;
use FindBin;
use File::Copy 'copy';
use File::Temp 'tempdir';
use IPC::Run 'run';

my $folder = tempdir(CLEANUP => 1);
my $said;

copy("$FindBin::RealBin/policy/$_", $folder) or die "$_: $!\n" foreach qw(package.json package-lock.json policy.mjs);
run([ 'npm', 'ci', '--silent', '--no-audit', '--prefix', $folder ], '>', \$said, '2>&1') or die "npm ci: $said\n";
system('node', "$folder/policy.mjs", "$FindBin::RealBin/../../../packaging/kubernetes/chart/policy.yaml");
exit($? >> 8);
