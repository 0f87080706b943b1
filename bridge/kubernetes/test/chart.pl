# chart.pl: the Helm chart makes what docs/kubernetes.md prints, and its policy is
# YAML that kubectl can read
#
# Packages: python3-yaml

use strict;
use warnings;
use FindBin;
use IPC::Run 'run';
use Test::More;

my $root  = "$FindBin::RealBin/../../..";
my $chart = "$root/packaging/kubernetes/chart";

sub slurp
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/;
	return scalar <$in>;
}

# The documents of a text, in canonical JSON, one a line.
sub documents
{
	my ($text) = @_;
	my ($out, $said);

	run([ 'python3', '-c', 'import json, sys, yaml
for one in yaml.safe_load_all(sys.stdin):
    print(json.dumps(one, sort_keys=True))' ], '<', \$text, '>', \$out, '2>', \$said) or die $said;
	return split /\n/, $out;
}

my %value = slurp("$chart/values.yaml") =~ /^(\w+): (.*)$/mg;

# A template of the two forms that the chart uses.
sub render
{
	my ($template, $namespace) = @_;

	$template =~ s/\{\{ \.Values\.(\w+) \}\}/$value{$1} \/\/ die "no value $1"/ge;
	$template =~ s/\{\{ \.Release\.Namespace \}\}/$namespace/g;
	die "the test cannot render $1" if $template =~ /(\{\{.*?\}\})/;
	return $template;
}

my ($page) = slurp("$root/docs/kubernetes.md") =~ /^   ```yaml\n(   apiVersion: v1\n   kind: Namespace.*?)^   ```/ms;
$page =~ s/^   //mg;
my ($space, @printed) = documents($page);
my $made = render(slurp("$chart/templates/bridge.yaml"), 'gpucredit');

is($space, '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpucredit"}}', 'the page makes its namespace first');
$made =~ s{^    lease = gpucredit/gpucredit-bridge\n}{}m or die 'no lease';	# which is the default
is(join("\n", documents($made)), join("\n", @printed), 'the chart makes what the page prints');
is(scalar(grep { /"namespace": "gpucredit"/ } documents(render(slurp("$chart/templates/bridge.yaml"), 'elsewhere'))), 0,
	'all of it in the namespace of the release');
like(slurp("$chart/templates/policy.yaml"), qr/\Areplace|\.Files\.Get "policy\.yaml" \| replace "system:serviceaccount:gpucredit:"/,
	'the policy names the service account of that namespace');
is(join(' ', map { /"kind": "(\w+)"/ } documents(slurp("$chart/policy.yaml"))),
	join(' ', ('ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding') x 3), 'and three policies are bound');
is(slurp("$chart/Chart.yaml") =~ /^version: (\S+)/m && $1, slurp("$root/gpucredit.control") =~ /^default_version = '(.*)'/m && $1,
	'the chart has the version of the extension');
done_testing();
