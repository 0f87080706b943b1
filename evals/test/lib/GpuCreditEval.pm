# GpuCreditEval.pm: a server with the eval harness in it
package GpuCreditEval;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use JSON::PP;
use Test::More;

use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;				# finds PostgreSQL's modules
use PostgreSQL::Test::Utils;

our @EXPORT = qw(eval_node eval_verify add_cases);

# A server, a database "eval", organisations "acme" and "rival" with credit,
# and endpoints "model" and "judge" with prices.
sub eval_node
{
	my ($name, @conf) = @_;
	my $node = new_node($name, @conf);

	$node->safe_psql('postgres', q{CREATE DATABASE eval ENCODING 'UTF8' TEMPLATE template0});
	$node->safe_psql('eval', 'CREATE EXTENSION gpucredit_eval CASCADE');
	$node->safe_psql('eval', q{
		CREATE ROLE worker LOGIN IN ROLE gpucredit_eval_worker;
		SELECT gpucredit.create_account('acme'), gpucredit.create_account('rival');
		SELECT gpucredit.create_account('acme', 'nlp'), gpucredit.create_account('acme', 'nlp/ann'),
			gpucredit.create_account('acme', 'vision');
		SELECT gpucredit.issue(org, '', 'i', 1000) FROM unnest('{acme,rival}'::text[]) org;
		SELECT gpucredit_eval.set_endpoint('acme', 'model', 'http://127.0.0.1:1', 1, 2, NULL),
			gpucredit_eval.set_endpoint('acme', 'judge', 'http://127.0.0.1:2', 3, 6, 20)});
	return $node;
}

# Adds cases, each a hash, and freezes the set.
sub add_cases
{
	my ($node, $org, $set, $key, @cases) = @_;
	my $json = JSON::PP->new->canonical->encode(\@cases) =~ s/'/''/gr;

	return $node->safe_psql('eval', qq{
		SELECT * FROM gpucredit_eval.add_cases('$org', '$set', '$json', '$key');
		SELECT version, cases FROM gpucredit_eval.freeze_set('$org', '$set', '$key-freeze')});
}

# Tests: both extensions' books.
sub eval_verify
{
	my ($node) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($node->safe_psql('eval', 'SELECT * FROM gpucredit_eval.verify() LIMIT 10'),
		'', 'the harness\'s verify() is empty');
	verify_empty($node, 'eval');
	return;
}

1;
