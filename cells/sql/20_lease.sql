/*
 * 20_lease.sql: credit that is held at home and spent in another cell.
 *
 * A lease has two ends. At home, an ordinary hold backs it, and lease_out has
 * how much of the hold is known to be spent or unused. In the other cell,
 * which has the organisation as a guest, buckets are issued for it, and
 * lease_in has what that cell has reported to the home. A report has
 * cumulative sums, so the latest one suffices: earlier ones may be lost, late
 * or repeated.
 *
 * The home releases credit only after the other cell has reported it as
 * expired or revoked. So the hold outlives every job there, and no clock
 * decides where credit is.
 */
/*
 * The role as which a cell calls another one. The operator allows it to log
 * in.
 */
DO $role$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles
		WHERE rolname = 'gpucredit_peer') THEN
		CREATE ROLE gpucredit_peer NOLOGIN;
	END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL;						/* another database has created it */
END
$role$;

CREATE TABLE gpucredit_cells.lease_out (
	org text COLLATE "C" NOT NULL,
	lease uuid NOT NULL,
	key text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	amount numeric(19, 6) NOT NULL,
	ttl interval NOT NULL,
	status text NOT NULL,
	reason text,
	expires_at timestamptz,
	parts jsonb NOT NULL DEFAULT '[]',
	holds bigint[] NOT NULL DEFAULT '{}',	/* the last one is open */
	made_at timestamptz NOT NULL,
	report bigint NOT NULL DEFAULT 0,
	spent numeric(19, 6) NOT NULL DEFAULT 0,
	returned numeric(19, 6) NOT NULL DEFAULT 0,
	captured numeric(19, 6) NOT NULL DEFAULT 0,
	given_back numeric(19, 6) NOT NULL DEFAULT 0,
	available numeric(19, 6) NOT NULL DEFAULT 0,
	held numeric(19, 6) NOT NULL DEFAULT 0,
	heard_at timestamptz,
	used_at timestamptz NOT NULL,
	closed_at timestamptz,
	written_off_at timestamptz,
	working xid8,				/* id of the transaction that may change the
								 * hold */
	CONSTRAINT lease_out_pkey PRIMARY KEY (org, lease),
	CONSTRAINT lease_out_status CHECK (status IN ('granted', 'denied'))
);
CREATE INDEX lease_out_key ON gpucredit_cells.lease_out (org, key);
CREATE INDEX lease_out_open ON gpucredit_cells.lease_out (cell, org)
	WHERE closed_at IS NULL;
COMMENT ON TABLE gpucredit_cells.lease_out IS
'At home: leases, the other cell''s last report of each, and what was done about it';
COMMENT ON COLUMN gpucredit_cells.lease_out.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.lease_out.lease IS 'The lease.';
COMMENT ON COLUMN gpucredit_cells.lease_out.key IS 'The caller''s key, which is the hold''s too.';
COMMENT ON COLUMN gpucredit_cells.lease_out.account IS 'Who spends it.';
COMMENT ON COLUMN gpucredit_cells.lease_out.cell IS 'Where it is spent.';
COMMENT ON COLUMN gpucredit_cells.lease_out.amount IS 'Credits leased.';
COMMENT ON COLUMN gpucredit_cells.lease_out.ttl IS 'How long it was to last.';
COMMENT ON COLUMN gpucredit_cells.lease_out.status IS 'granted or denied.';
COMMENT ON COLUMN gpucredit_cells.lease_out.reason IS 'Why it was denied.';
COMMENT ON COLUMN gpucredit_cells.lease_out.expires_at IS 'From then on nothing is reserved on it.';
COMMENT ON COLUMN gpucredit_cells.lease_out.parts IS 'What each bucket gave, with its kind, priority and policy.';
COMMENT ON COLUMN gpucredit_cells.lease_out.holds IS 'The holds behind it, the open one last; none: no credit stands behind it.';
COMMENT ON COLUMN gpucredit_cells.lease_out.made_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit_cells.lease_out.report IS 'The number of the last report from the other cell; 0: none.';
COMMENT ON COLUMN gpucredit_cells.lease_out.spent IS 'Spent there, by that report.';
COMMENT ON COLUMN gpucredit_cells.lease_out.returned IS 'Expired or revoked there, by that report.';
COMMENT ON COLUMN gpucredit_cells.lease_out.captured IS 'Captured here, less refunds.';
COMMENT ON COLUMN gpucredit_cells.lease_out.given_back IS 'Returned here to the buckets it came from.';
COMMENT ON COLUMN gpucredit_cells.lease_out.available IS 'Available there, by that report.';
COMMENT ON COLUMN gpucredit_cells.lease_out.held IS 'Held there, by that report.';
COMMENT ON COLUMN gpucredit_cells.lease_out.heard_at IS 'When that report last came; NULL: none did.';
COMMENT ON COLUMN gpucredit_cells.lease_out.used_at IS 'When a report last showed use.';
COMMENT ON COLUMN gpucredit_cells.lease_out.closed_at IS 'When it was over; NULL: it is open.';
COMMENT ON COLUMN gpucredit_cells.lease_out.written_off_at IS 'When an operator ended it without a last report; NULL: never.';
COMMENT ON COLUMN gpucredit_cells.lease_out.working IS 'The transaction that may change its hold; NULL: none.';

CREATE TABLE gpucredit_cells.lease_in (
	org text COLLATE "C" NOT NULL,
	lease uuid NOT NULL,
	account text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	amount numeric(19, 6) NOT NULL,
	expires_at timestamptz NOT NULL,
	buckets bigint[] NOT NULL DEFAULT '{}',
	forgotten numeric(19, 6) NOT NULL DEFAULT 0,
	report bigint NOT NULL DEFAULT 0,
	acked bigint NOT NULL DEFAULT 0,
	spent numeric(19, 6) NOT NULL DEFAULT 0,
	returned numeric(19, 6) NOT NULL DEFAULT 0,
	available numeric(19, 6) NOT NULL DEFAULT 0,
	held numeric(19, 6) NOT NULL DEFAULT 0,
	report_due boolean NOT NULL DEFAULT true,
	made_at timestamptz NOT NULL,
	closed_at timestamptz,
	CONSTRAINT lease_in_pkey PRIMARY KEY (org, lease)
);
CREATE INDEX lease_in_open ON gpucredit_cells.lease_in (cell, org)
	WHERE closed_at IS NULL;
COMMENT ON TABLE gpucredit_cells.lease_in IS
'In the cell that spends: leases, their buckets here, and what was reported to home';
COMMENT ON COLUMN gpucredit_cells.lease_in.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.lease_in.lease IS 'The lease.';
COMMENT ON COLUMN gpucredit_cells.lease_in.account IS 'Who spends it.';
COMMENT ON COLUMN gpucredit_cells.lease_in.cell IS 'The home it comes from.';
COMMENT ON COLUMN gpucredit_cells.lease_in.amount IS 'Credits leased.';
COMMENT ON COLUMN gpucredit_cells.lease_in.expires_at IS 'When its buckets expire.';
COMMENT ON COLUMN gpucredit_cells.lease_in.buckets IS 'Its buckets here; none: it came too late, or is no longer in this cell''s books.';
COMMENT ON COLUMN gpucredit_cells.lease_in.forgotten IS 'Spent here by earlier reports, and no longer in this cell''s books.';
COMMENT ON COLUMN gpucredit_cells.lease_in.report IS 'The number of the last report; 0: none.';
COMMENT ON COLUMN gpucredit_cells.lease_in.acked IS 'The last report that home has; one report at most is under way.';
COMMENT ON COLUMN gpucredit_cells.lease_in.spent IS 'Spent, by the last report.';
COMMENT ON COLUMN gpucredit_cells.lease_in.returned IS 'Expired or revoked, by the last report.';
COMMENT ON COLUMN gpucredit_cells.lease_in.available IS 'Available, by the last report.';
COMMENT ON COLUMN gpucredit_cells.lease_in.held IS 'Held, by the last report.';
COMMENT ON COLUMN gpucredit_cells.lease_in.report_due IS 'The next carry writes a report, whether or not a figure changed.';
COMMENT ON COLUMN gpucredit_cells.lease_in.made_at IS 'When it came.';
COMMENT ON COLUMN gpucredit_cells.lease_in.closed_at IS 'When home had its last report; NULL: it is open.';

CREATE TABLE gpucredit_cells.lease_policy (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	minimum numeric(19, 6) NOT NULL,
	target numeric(19, 6) NOT NULL,
	ttl interval NOT NULL,
	CONSTRAINT lease_policy_pkey PRIMARY KEY (org, account, cell)
);
COMMENT ON TABLE gpucredit_cells.lease_policy IS
'At home: accounts whose leases are topped up';
COMMENT ON COLUMN gpucredit_cells.lease_policy.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.lease_policy.account IS 'Who spends.';
COMMENT ON COLUMN gpucredit_cells.lease_policy.cell IS 'Where.';
COMMENT ON COLUMN gpucredit_cells.lease_policy.minimum IS 'It is topped up when it has less; an idle account keeps so much.';
COMMENT ON COLUMN gpucredit_cells.lease_policy.target IS 'What it has after that.';
COMMENT ON COLUMN gpucredit_cells.lease_policy.ttl IS 'How long each lease lasts; unused for so long, the account is idle.';

/* Messages that are to be sent. Only the newest of each kind is kept. */
CREATE TABLE gpucredit_cells.outbox (
	cell text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	lease uuid NOT NULL,
	kind text NOT NULL,
	n bigint NOT NULL,
	body jsonb NOT NULL,
	made_at timestamptz NOT NULL,
	tries int NOT NULL DEFAULT 0,
	error text,
	CONSTRAINT outbox_pkey PRIMARY KEY (cell, org, lease, kind),
	CONSTRAINT outbox_kind CHECK (kind IN ('grant', 'report', 'recall', 'resend'))
);
COMMENT ON TABLE gpucredit_cells.outbox IS
'Messages to other cells that are not known to have arrived';
COMMENT ON COLUMN gpucredit_cells.outbox.cell IS 'To whom.';
COMMENT ON COLUMN gpucredit_cells.outbox.org IS 'The organisation; '''': of none.';
COMMENT ON COLUMN gpucredit_cells.outbox.lease IS 'The lease; zeros: of none.';
COMMENT ON COLUMN gpucredit_cells.outbox.kind IS 'grant: home makes a lease; report: what became of it; recall: home wants the rest; resend: this cell was restored.';
COMMENT ON COLUMN gpucredit_cells.outbox.n IS 'Its number in the lease.';
COMMENT ON COLUMN gpucredit_cells.outbox.body IS 'What it says.';
COMMENT ON COLUMN gpucredit_cells.outbox.made_at IS 'When it was written.';
COMMENT ON COLUMN gpucredit_cells.outbox.tries IS 'How often it was sent in vain.';
COMMENT ON COLUMN gpucredit_cells.outbox.error IS 'What came of the last try.';

CREATE TABLE gpucredit_cells.peer (
	cell text COLLATE "C" NOT NULL,
	server text NOT NULL,
	heard_at timestamptz,
	failing_since timestamptz,
	error text,
	CONSTRAINT peer_pkey PRIMARY KEY (cell)
);
COMMENT ON TABLE gpucredit_cells.peer IS
'The state of the exchange with each other cell; whoever carries to it locks its row';
COMMENT ON COLUMN gpucredit_cells.peer.cell IS 'The other cell.';
COMMENT ON COLUMN gpucredit_cells.peer.server IS 'Which database this cell was, and since when it ran, when it last carried; another one may have been restored.';
COMMENT ON COLUMN gpucredit_cells.peer.heard_at IS 'When it last answered; NULL: never.';
COMMENT ON COLUMN gpucredit_cells.peer.failing_since IS 'Since when it does not; NULL: it does.';
COMMENT ON COLUMN gpucredit_cells.peer.error IS 'Why not.';

CREATE TABLE gpucredit_cells.home_credit (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	spendable numeric NOT NULL,
	at timestamptz NOT NULL,
	CONSTRAINT home_credit_pkey PRIMARY KEY (org, account)
);
COMMENT ON TABLE gpucredit_cells.home_credit IS
'What home still had for an account that leases, as last known here';
COMMENT ON COLUMN gpucredit_cells.home_credit.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.home_credit.account IS 'The account.';
COMMENT ON COLUMN gpucredit_cells.home_credit.cell IS 'The home.';
COMMENT ON COLUMN gpucredit_cells.home_credit.spendable IS 'Credits that could be leased.';
COMMENT ON COLUMN gpucredit_cells.home_credit.at IS 'As of when, by home''s clock.';

CREATE TABLE gpucredit_cells.finding (
	finding bigint GENERATED BY DEFAULT AS IDENTITY,
	at timestamptz NOT NULL,
	org text COLLATE "C" NOT NULL,
	lease uuid NOT NULL,
	what text NOT NULL,
	amount numeric NOT NULL,
	detail text NOT NULL,
	CONSTRAINT finding_pkey PRIMARY KEY (finding)
);
COMMENT ON TABLE gpucredit_cells.finding IS
'Where two ends of a lease differed, as after a restore, and what was done';
COMMENT ON COLUMN gpucredit_cells.finding.finding IS 'Its number.';
COMMENT ON COLUMN gpucredit_cells.finding.at IS 'When it was found.';
COMMENT ON COLUMN gpucredit_cells.finding.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.finding.lease IS 'The lease.';
COMMENT ON COLUMN gpucredit_cells.finding.what IS 'forgotten, adopted, unbacked, uncollected, written_off or late; moved: of an organisation, not a lease.';
COMMENT ON COLUMN gpucredit_cells.finding.amount IS 'Credits it is about.';
COMMENT ON COLUMN gpucredit_cells.finding.detail IS 'What it is, as text.';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['lease_out', 'lease_in', 'lease_policy',
		'outbox', 'peer', 'home_credit', 'finding', 'finding_finding_seq']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit_cells.' || name)::pg_catalog.regclass, '');
	END LOOP;
END
$dump$;

/*
 * Refuses changes of a hold behind a lease by its owner, who could otherwise
 * release the hold and spend the credit here, too.
 */
CREATE FUNCTION gpucredit_cells.refuse_leased() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF EXISTS (SELECT FROM gpucredit_cells.lease_out o
		WHERE o.org = OLD.org AND o.holds @> ARRAY[OLD.hold]
			AND o.working IS DISTINCT FROM pg_current_xact_id()) THEN
		RAISE EXCEPTION 'hold % stands behind a lease', OLD.hold
			USING ERRCODE = 'UC711',
			DETAIL = 'Its credit may be spent in another cell.',
			HINT = 'Call gpucredit_cells.recall() to have what is unused back.';
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.refuse_leased() IS
'Trigger: refuses to change a hold that stands behind a lease (UC711).';
CREATE INDEX lease_out_hold ON gpucredit_cells.lease_out USING gin (holds);
/* A job's hold never backs a lease. */
CREATE TRIGGER cells_leased AFTER UPDATE ON gpucredit.hold FOR EACH ROW
	WHEN (OLD.job IS NULL)
	EXECUTE FUNCTION gpucredit_cells.refuse_leased();

/*
 * Adds to a denial for lack of credit how much credit the home still has. Only
 * denials write rows to table denial, so no other call is slowed down.
 */
CREATE FUNCTION gpucredit_cells.report_home_credit() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known record;
BEGIN
	SELECT a.account, c.cell, c.spendable, c.at INTO known
	FROM gpucredit.audit a
		JOIN gpucredit_cells.home_credit c ON c.org = a.org
			AND (c.account IN ('', a.account)
				OR starts_with(a.account, c.account || '/'))
	WHERE a.audit = NEW.audit AND a.org = NEW.org
		AND a.reason = 'insufficient_credits'
	ORDER BY length(c.account) DESC LIMIT 1;
	IF FOUND THEN
		RAISE NOTICE 'account "%" had % credits at home', known.account,
			known.spendable
			USING DETAIL = format('Cell "%s" said so at %s.', known.cell,
				known.at),
			HINT = 'Call gpucredit_cells.lease() there.';
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.report_home_credit() IS
'Trigger: a denial for want of credit reports what home had, as last known.';
CREATE TRIGGER cells_home_credit AFTER INSERT ON gpucredit.denial
	FOR EACH ROW EXECUTE FUNCTION gpucredit_cells.report_home_credit();

CREATE FUNCTION gpucredit_cells.here() RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result text;
BEGIN
	SELECT s.cell INTO result FROM gpucredit_cells.self s;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'this database is not a cell'
			USING ERRCODE = 'UC710',
			DETAIL = 'It is a router, or was not named yet.',
			HINT = 'Call it in the organisation''s home.';
	END IF;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.here() IS
'Internal: the cell that this database is.
Errors: UC710 it is none.';

CREATE FUNCTION gpucredit_cells.require_peer(cell text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_internal.require_sense('cell', require_peer.cell,
		octet_length(require_peer.cell) <= 255, 'is too long',
		'Pass the name of another cell.');
	IF require_peer.cell = gpucredit_cells.here() OR NOT EXISTS (
		SELECT FROM gpucredit_cells.cell c WHERE c.cell = require_peer.cell)
	THEN
		RAISE EXCEPTION 'cell "%" is not another cell',
			gpucredit_internal.clip_for_message(require_peer.cell)
			USING ERRCODE = 'UC712',
			DETAIL = 'A lease is spent in a cell that is not the home.',
			HINT = 'Table gpucredit_cells.cell lists the cells.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_peer(text) IS
'Internal: raises UC712 unless there is such a cell, and it is not this one.';

/*
 * Returns the allowed clock skew. The call of now() loads the library, which
 * defines the setting.
 */
CREATE FUNCTION gpucredit_cells.clock_skew() RETURNS interval
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN gpucredit.now() IS NOT NULL
	THEN current_setting('gpucredit.clock_skew')::interval END;
COMMENT ON FUNCTION gpucredit_cells.clock_skew() IS
'Internal: how far clocks of cells may be apart.';

CREATE FUNCTION gpucredit_cells.post(cell text, org text, lease uuid,
	kind text, n bigint, body jsonb) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO gpucredit_cells.outbox AS o (cell, org, lease, kind, n, body,
		made_at)
	VALUES (post.cell, post.org, post.lease, post.kind, post.n,
		post.body || jsonb_build_object('kind', post.kind, 'n', post.n,
			'org', post.org, 'lease', post.lease,
			'from', gpucredit_cells.here(), 'to', post.cell),
		gpucredit.now())
	ON CONFLICT ON CONSTRAINT outbox_pkey DO UPDATE
	SET n = excluded.n, body = excluded.body, made_at = excluded.made_at,
		tries = 0, error = NULL
	WHERE o.n < excluded.n OR o.kind <> 'report';
END;
COMMENT ON FUNCTION gpucredit_cells.post(text, text, uuid, text, bigint,
	jsonb) IS
'Internal: puts a message into the outbox, in place of an earlier one of its kind.';

CREATE FUNCTION gpucredit_cells.note(org text, lease uuid, what text,
	amount numeric, detail text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO gpucredit_cells.finding (at, org, lease, what, amount, detail)
	VALUES (gpucredit.now(), note.org, note.lease, note.what, note.amount,
		note.detail);
END;
COMMENT ON FUNCTION gpucredit_cells.note(text, uuid, text, numeric, text) IS
'Internal: records that two ends of a lease differed.';
