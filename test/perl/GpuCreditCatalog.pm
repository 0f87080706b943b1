# GpuCreditCatalog.pm: the objects of the extension, as lines
#
# catalog_of() lists everything of an extension that its script makes: members,
# defaults, constraints, indexes, triggers, policies, types, sequences, views,
# functions with bodies and settings, comments, privileges, dumped tables, and
# built-in rows.  Tables have their columns by name, because an upgrade cannot
# choose their order.  Two installations are equal if their lines are.

package GpuCreditCatalog;

use strict;
use warnings;
use GpuCredit;
use Exporter 'import';

our @EXPORT = qw(catalog_of);

# Privileges as a sorted list, because their order means nothing.
my $acl = q{coalesce((SELECT string_agg(x::text, ' ' ORDER BY x::text)
	FROM unnest(%s) x), 'default')};

my @questions = (
	[ 'member', q{
		SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
		FROM pg_depend d WHERE d.refclassid = 'pg_extension'::regclass
			AND d.refobjid = (SELECT oid FROM pg_extension
				WHERE extname = 'gpucredit') AND d.deptype = 'e'} ],
	[ 'extension', q{
		SELECT concat_ws(' ', extversion, extrelocatable, extnamespace::regnamespace)
		FROM pg_extension WHERE extname = 'gpucredit'} ],
	[ 'dumped', q{
		SELECT concat_ws(' ', c.t::regclass, c.w)
		FROM pg_extension e, unnest(e.extconfig, e.extcondition) AS c (t, w)
		WHERE e.extname = 'gpucredit'} ],
	[ 'schema', q{
		SELECT concat_ws(' ', nspname, } . sprintf($acl, 'nspacl') . q{,
			obj_description(oid, 'pg_namespace'))
		FROM pg_namespace WHERE nspname ~ '^gpucredit'} ],
	[ 'relation', q{
		SELECT concat_ws(' ', c.oid::regclass, relkind, relpersistence,
			relrowsecurity, relforcerowsecurity, relreplident, reloptions,
			am.amname, } . sprintf($acl, 'relacl') . q{,
			obj_description(c.oid, 'pg_class'))
		FROM pg_class c LEFT JOIN pg_am am ON am.oid = relam
		WHERE relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace)} ],
	[ 'column', q{
		SELECT concat_ws(' ', c.oid::regclass || '.' || a.attname,
			format_type(a.atttypid, a.atttypmod),
			nullif(a.attcollation, 0)::regcollation, a.attnotnull,
			nullif(a.attidentity, ''), nullif(a.attgenerated, ''),
			a.attstorage, nullif(a.attcompression, ''),
			pg_get_expr(d.adbin, d.adrelid), } . sprintf($acl, 'attacl') . q{,
			col_description(c.oid, a.attnum),
			CASE WHEN c.relkind NOT IN ('r', 'p') THEN a.attnum END)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			LEFT JOIN pg_attrdef d ON d.adrelid = c.oid
				AND d.adnum = a.attnum
		WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace)
			AND c.relkind IN ('r', 'p', 'v', 'c') AND a.attnum > 0
			AND NOT a.attisdropped} ],
	[ 'constraint', q{
		SELECT concat_ws(' ', conrelid::regclass, conname,
			pg_get_constraintdef(oid), convalidated,
			obj_description(oid, 'pg_constraint'))
		FROM pg_constraint
		WHERE connamespace = 'gpucredit'::regnamespace} ],
	[ 'index', q{
		SELECT pg_get_indexdef(c.oid) FROM pg_class c
		WHERE c.relnamespace = 'gpucredit'::regnamespace
			AND c.relkind IN ('i', 'I')} ],
	[ 'trigger', q{
		SELECT concat_ws(' ', pg_get_triggerdef(t.oid), tgenabled)
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace = 'gpucredit'::regnamespace
			AND NOT t.tgisinternal} ],
	[ 'policy', q{
		SELECT concat_ws(' ', polrelid::regclass, polname, polcmd,
			polpermissive, array(SELECT r::regrole::text
				FROM unnest(polroles) r WHERE r <> 0 ORDER BY 1),
			pg_get_expr(polqual, polrelid),
			pg_get_expr(polwithcheck, polrelid))
		FROM pg_policy} ],
	[ 'view', q{
		SELECT concat_ws(' ', c.oid::regclass, pg_get_viewdef(c.oid, true))
		FROM pg_class c WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace)
			AND c.relkind = 'v'} ],
	[ 'sequence', q{
		SELECT concat_ws(' ', s.seqrelid::regclass, s.seqtypid::regtype,
			s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache,
			s.seqcycle) FROM pg_sequence s} ],
	[ 'type', q{
		SELECT concat_ws(' ', t.oid::regtype, typtype, typcategory,
			typispreferred, typlen, typbyval, typalign, typstorage, typinput,
			typoutput, typreceive, typsend, } . sprintf($acl, 'typacl') . q{,
			obj_description(t.oid, 'pg_type'))
		FROM pg_type t WHERE typnamespace = 'gpucredit'::regnamespace} ],
	[ 'function', q{
		SELECT concat_ws(' ', p.oid::regprocedure,
			CASE WHEN prokind <> 'a' THEN pg_get_functiondef(p.oid) END,
			proparallel, procost, prorows, prosupport, } .
		sprintf($acl, 'proacl') . q{, obj_description(p.oid, 'pg_proc'))
		FROM pg_proc p WHERE pronamespace IN (
			'gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace)} ],
	[ 'aggregate', q{
		SELECT concat_ws(' ', a.aggfnoid::regprocedure, aggkind,
			aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn,
			aggmtransfn, aggminvtransfn, aggmfinalfn, aggsortop::regoperator,
			aggtranstype::regtype, aggtransspace, aggmtransspace, agginitval)
		FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
		WHERE p.pronamespace = 'gpucredit'::regnamespace} ],
	[ 'operator', q{
		SELECT concat_ws(' ', o.oid::regoperator, oprcanmerge, oprcanhash,
			oprcom::regoperator, oprnegate::regoperator, oprcode, oprrest,
			oprjoin, obj_description(o.oid, 'pg_operator'))
		FROM pg_operator o WHERE oprnamespace = 'gpucredit'::regnamespace} ],
	[ 'operator class', q{
		SELECT concat_ws(' ', opcname, am.amname, opcintype::regtype,
			opcdefault, opckeytype::regtype)
		FROM pg_opclass c JOIN pg_am am ON am.oid = opcmethod
		WHERE opcnamespace = 'gpucredit'::regnamespace} ],
	[ 'cast', q{
		SELECT concat_ws(' ', castsource::regtype, casttarget::regtype,
			castfunc::regprocedure, castcontext, castmethod)
		FROM pg_cast WHERE castsource::regtype::text ~ '^gpucredit'
			OR casttarget::regtype::text ~ '^gpucredit'} ],
	[ 'first privileges', q{
		SELECT concat_ws(' ', pg_describe_object(i.classoid, i.objoid,
			i.objsubid), } . sprintf($acl, 'i.initprivs') . q{)
		FROM pg_init_privs i JOIN pg_depend d ON d.classid = i.classoid
			AND d.objid = i.objoid AND d.deptype = 'e'
			AND d.refclassid = 'pg_extension'::regclass
			AND d.refobjid = (SELECT oid FROM pg_extension
				WHERE extname = 'gpucredit')} ],
	[ 'built-in tier', 'SELECT t::text FROM gpucredit.tier_builtin t' ],
	[ 'built-in rule',
		'SELECT r::text FROM gpucredit.retry_rule_builtin r' ],
);

# All lines, each beginning with its object.
sub catalog_of
{
	my ($node, $db) = @_;
	my @lines;

	foreach my $question (@questions)
	{
		my ($about, $sql) = @$question;
		my $answer = query($node, $db, qq{
			SET search_path = pg_catalog;
			SELECT translate(line, E'\\n', ' ') FROM ($sql) AS q (line)});

		push @lines, map { "$about: " . in_any_order($_) } split /\n/, $answer;
	}
	return sort @lines;
}

# An expanded "SELECT *" follows the order of a table's columns, which may
# differ.  So a run of columns of one alias is sorted.
sub in_any_order
{
	my ($line) = @_;

	$line =~ s{\b((\w+)\.\w+(?:,\s+\2\.\w+)+)}
		{ join ', ', sort split /,\s+/, $1 }gex;
	return $line;
}

1;
