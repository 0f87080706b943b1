/*
 * 99_grants.sql: who may do what.  The daemon is a login of
 * gpucredit_registry_daemon, which may call what is its, and read nothing.
 */
DO $$
BEGIN
	CREATE ROLE gpucredit_registry_daemon NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
	NULL;			/* roles belong to the cluster: another database may have made it */
END
$$;

REVOKE ALL ON SCHEMA gpucredit_registry FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_registry FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_registry FROM PUBLIC;
REVOKE ALL ON TYPE gpucredit_registry.caller, gpucredit_registry.http_request,
	gpucredit_registry.http_response, gpucredit_registry.upload_result,
	gpucredit_registry.commit_result
FROM PUBLIC;
GRANT USAGE ON SCHEMA gpucredit_registry TO gpucredit_admin, gpucredit_operator,
	gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant,
	gpucredit_registry_daemon;
GRANT USAGE ON TYPE gpucredit_registry.upload_result, gpucredit_registry.commit_result
TO gpucredit_admin, gpucredit_app, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.http, gpucredit_registry.knows_token,
	gpucredit_registry.new_pack,
	gpucredit_registry.begin_part, gpucredit_registry.known_chunks,
	gpucredit_registry.store_chunks, gpucredit_registry.upload_pieces,
	gpucredit_registry.finish_upload,
	gpucredit_registry.close_download, gpucredit_registry.condemned_packs,
	gpucredit_registry.pack_gone, gpucredit_registry.collect,
	gpucredit_registry.has_pack, gpucredit_registry.stored_chunks,
	gpucredit_registry.aged_packs, gpucredit_registry.chunks_in,
	gpucredit_registry.move_chunk
TO gpucredit_registry_daemon;

GRANT EXECUTE ON FUNCTION gpucredit_registry.create_model,
	gpucredit_registry.delete_model, gpucredit_registry.set_tag,
	gpucredit_registry.overlap, gpucredit_registry.grant_access, gpucredit_registry.revoke_access,
	gpucredit_registry.issue_token, gpucredit_registry.tokens, gpucredit_registry.revoke_token,
	gpucredit_registry.start_upload,
	gpucredit_registry.commit, gpucredit_registry.add_parent, gpucredit_registry.storage,
	gpucredit_registry.find_revision, gpucredit_registry.protect_ref,
	gpucredit_registry.set_score, gpucredit_registry.scores
TO gpucredit_admin, gpucredit_app, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.claim_scans, gpucredit_registry.report_scan,
	gpucredit_registry.scan_evidence
TO gpucredit_admin, gpucredit_agent;

GRANT EXECUTE ON FUNCTION gpucredit_registry.scans
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.alerts
TO gpucredit_admin, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.resolve, gpucredit_registry.search,
	gpucredit_registry.popular,
	gpucredit_registry.open_download, gpucredit_registry.close_download
TO gpucredit_admin, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit_registry.descendants, gpucredit_registry.ancestors
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_registry.quarantine,
	gpucredit_registry.release_quarantine, gpucredit_registry.rescan,
	gpucredit_registry.block_objects, gpucredit_registry.unblock_objects,
	gpucredit_registry.collect,
	gpucredit_registry.new_url_key
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit_registry.set_storage_quota, gpucredit_registry.move_ref,
	gpucredit_registry.set_storage_price, gpucredit_registry.set_scan_policy,
	gpucredit_registry.bill
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit_registry.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;
GRANT SELECT ON gpucredit_registry.event TO gpucredit_admin, gpucredit_auditor;

/* All of it is in a dump. */
DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN
		SELECT c.oid FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'gpucredit_registry'::regnamespace AND c.relkind IN ('r', 'S')
			AND c.relname <> 'lineage_turn'		/* its row is made here */
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(t, '');
	END LOOP;
END
$$;
