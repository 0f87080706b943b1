# 025_uninstall.pl: gpucredit leaves a database and a cluster as it found them;
# and its tables can be published as docs/operating.md says
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use Test::More;

my $node = fresh_node('main', "shared_preload_libraries = 'gpucredit, pg_cron'",
	"cron.database_name = 'credit'", 'wal_level = logical');

# What the cluster and a database have, without numbers and the clock.
my $traces = q{
	SELECT 'role ' || rolname FROM pg_roles
	UNION ALL SELECT 'extension ' || extname FROM pg_extension
	UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'
	UNION ALL SELECT 'setting ' || setrole::regrole || ' ' || setconfig::text FROM pg_db_role_setting
	UNION ALL SELECT 'publication ' || pubname FROM pg_publication
	UNION ALL SELECT 'server ' || srvname FROM pg_foreign_server
	UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger
	UNION ALL SELECT 'job ' || jobname FROM cron.job
	UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
	ORDER BY 1};

query($node, 'postgres', 'CREATE DATABASE credit');
query($node, 'postgres', 'CREATE DATABASE other');
query($node, 'credit', $_) foreach 'CREATE EXTENSION pg_cron', 'CREATE ROLE alice LOGIN';
my $before = query($node, 'credit', $traces);

query($node, 'credit', $_)
  foreach 'CREATE EXTENSION gpucredit_report CASCADE', q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'paid', 5)},
  'SELECT gpucredit.install_jobs()', 'GRANT gpucredit_tenant TO alice', q{SELECT gpucredit.bind_tenant('alice', 'acme', '')},
  'ALTER DATABASE credit SET gpucredit.clock_skew = 0', 'CREATE TABLE public.mine (n int)', 'GRANT SELECT ON public.mine TO gpucredit_app',
  'CREATE PUBLICATION gpucredit_rules';
query($node, 'other', 'CREATE EXTENSION gpucredit');
cmp_ok(query($node, 'credit', q{SELECT count(*) FROM pg_db_role_setting WHERE setrole = 'alice'::regrole}), '>', 0, q{a tenant's login has timeouts});
my $held = query($node, 'credit', 'SELECT count(*) FROM gpucredit.entry');
query($node, 'credit', 'SELECT * FROM gpucredit.uninstall()') foreach 1, 2;
is(query($node, 'credit', 'SELECT count(*) FROM gpucredit.entry'), $held, 'uninstall() itself changes nothing');
verify_empty($node, 'credit');

# what the documentation says of logical replication
my $tables = query($node, 'credit', q{SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
	WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind IN ('r', 'p')
		AND c.relname NOT IN ('tier_builtin', 'retry_rule_builtin', 'step_secret', 'job_session', 'job_signal', 'log_wish', 'seal_pending', 'upkeep_position')});
query($node, 'credit', "CREATE PUBLICATION everything FOR TABLE $tables");
is(query($node, 'credit', q{SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c
	WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relpersistence = 'u' AND c.relkind = 'r'}),
	'job_session job_signal log_wish seal_pending upkeep_position', 'the tables that PostgreSQL does not publish are those that the page names');
query($node, 'credit', 'DROP PUBLICATION everything');
like(slurp_checkout('docs/operating.md'), qr/`tier_builtin`, `retry_rule_builtin` and `step_secret`.*`job_session`, `job_signal`, `log_wish`, `seal_pending` and `upkeep_position`/, '... it names all eight');

# something of one's own that uses gpucredit
query($node, 'credit', 'CREATE TABLE public.invoices (amount gpucredit.credits)');
my ($status, $out, $err) = $node->psql('credit', "\\set ON_ERROR_STOP on\nBEGIN;\nSELECT statement FROM gpucredit.uninstall() ORDER BY step \\gexec\nCOMMIT;");
like($err, qr/cannot drop extension gpucredit because other objects depend on it/, 'what is yours is not dropped');
is(query($node, 'credit', 'SELECT count(*) FROM gpucredit.entry'), $held, '... nor is anything else, in a transaction');
query($node, 'credit', 'DROP TABLE public.invoices');

($status, $out, $err) = $node->psql('credit', "\\set ON_ERROR_STOP on\nSELECT statement FROM gpucredit.uninstall() ORDER BY step \\gexec");
is($status, 0, 'in a database that shares the roles') or diag $err;
is(query($node, 'credit', q{SELECT count(*) FROM pg_extension WHERE extname LIKE 'gpucredit%'}), '0', '... the extensions are gone');
is(query($node, 'credit', 'SELECT count(*) FROM cron.job'), '0', '... and the jobs');
is(query($node, 'other', q{SELECT count(*) FROM gpucredit.verify()}), '0', '... the other database works');
is(query($node, 'credit', q{SELECT count(*) FROM pg_roles WHERE rolname LIKE 'gpucredit%'}), '6', '... and has its roles');

($status, $out, $err) = $node->psql('other', "\\set ON_ERROR_STOP on\nSELECT statement FROM gpucredit.uninstall() ORDER BY step \\gexec");
is($status, 0, 'in the last database') or diag $err;
like($err, qr/HINT:.*cron\.unschedule/, '... a notice has the SQL for the database of pg_cron');
query($node, 'credit', 'DROP TABLE public.mine');
is(query($node, 'credit', $traces), $before, 'nothing of gpucredit is left');
query($node, 'credit', 'CREATE EXTENSION gpucredit');
verify_empty($node, 'credit', 'and it can be created again');
done_testing();
