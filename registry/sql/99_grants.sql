/*
 * 99_grants.sql: who may do what. The daemon logs in as a member of
 * gpucredit_registry_daemon, which may call the daemon's functions and read no
 * table; registry-mirror as one of gpucredit_registry_mirror, which may do what
 * its claims allow.
 */
DO $$
BEGIN
	CREATE ROLE gpucredit_registry_daemon NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
	NULL;			/* roles belong to the cluster, so another database may
					 * have created it */
END
$$;
DO $$
BEGIN
	CREATE ROLE gpucredit_registry_mirror NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
	NULL;
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
	gpucredit_registry_daemon, gpucredit_registry_mirror;
GRANT USAGE ON TYPE gpucredit_registry.upload_result, gpucredit_registry.commit_result
TO gpucredit_admin, gpucredit_app, gpucredit_tenant;
GRANT USAGE ON TYPE gpucredit_registry.commit_result TO gpucredit_registry_mirror;

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
	gpucredit_registry.commit, gpucredit_registry.add_parent, gpucredit_registry.add_dataset,
	gpucredit_registry.storage,
	gpucredit_registry.find_model, gpucredit_registry.find_revision,
	gpucredit_registry.folder_digest,
	gpucredit_registry.protect_ref,
	gpucredit_registry.set_score, gpucredit_registry.scores,
	gpucredit_registry.set_alias, gpucredit_registry.delete_alias, gpucredit_registry.aliases,
	gpucredit_registry.set_immutable_tags, gpucredit_registry.set_retention,
	gpucredit_registry.delete_retention, gpucredit_registry.retention,
	gpucredit_registry.apply_retention,
	gpucredit_registry.set_mirror, gpucredit_registry.delete_mirror
TO gpucredit_admin, gpucredit_app, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.mirrors, gpucredit_registry.origins,
	gpucredit_registry.imports
TO gpucredit_admin, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

/* A tenant does not say himself where his versions come from. */
GRANT EXECUTE ON FUNCTION gpucredit_registry.import_object,
	gpucredit_registry.import_version, gpucredit_registry.import_refs
TO gpucredit_admin, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit_registry.claim_mirror, gpucredit_registry.mirror_object,
	gpucredit_registry.extend_mirror, gpucredit_registry.mirror_version,
	gpucredit_registry.report_mirror
TO gpucredit_admin, gpucredit_registry_mirror;

GRANT EXECUTE ON FUNCTION gpucredit_registry.use_version
TO gpucredit_admin, gpucredit_app, gpucredit_agent, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.claim_scans, gpucredit_registry.report_scan,
	gpucredit_registry.scan_evidence
TO gpucredit_admin, gpucredit_agent;

GRANT EXECUTE ON FUNCTION gpucredit_registry.scans, gpucredit_registry.datasets
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.alerts
TO gpucredit_admin, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.downloads
TO gpucredit_admin, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_registry.resolve, gpucredit_registry.search,
	gpucredit_registry.popular,
	gpucredit_registry.open_download, gpucredit_registry.close_download
TO gpucredit_admin, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit_registry.descendants, gpucredit_registry.ancestors
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_registry.quarantine,
	gpucredit_registry.release_quarantine, gpucredit_registry.rescan,
	gpucredit_registry.block_objects, gpucredit_registry.unblock_objects,
	gpucredit_registry.import_fingerprints, gpucredit_registry.delete_fingerprints,
	gpucredit_registry.collect,
	gpucredit_registry.new_url_key,
	gpucredit_registry.set_legal_hold, gpucredit_registry.lift_legal_hold
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit_registry.fingerprints
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_registry.set_storage_quota, gpucredit_registry.move_ref,
	gpucredit_registry.set_storage_price, gpucredit_registry.set_scan_policy,
	gpucredit_registry.bill, gpucredit_registry.set_download_retention
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit_registry.models, gpucredit_registry.model_facets,
	gpucredit_registry.model_details, gpucredit_registry.versions,
	gpucredit_registry.version_details, gpucredit_registry.version_files,
	gpucredit_registry.lineage_graph, gpucredit_registry.version_datasets,
	gpucredit_registry.held_versions
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.traffic, gpucredit_registry.model_cost,
	gpucredit_registry.bills
TO gpucredit_admin, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_registry.all_models, gpucredit_registry.all_model_facets,
	gpucredit_registry.all_held_versions, gpucredit_registry.all_lineage_graph
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_registry.model_downloads
TO gpucredit_admin, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_registry.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;
GRANT SELECT ON gpucredit_registry.event TO gpucredit_admin, gpucredit_auditor;

/* A dump contains all tables and sequences. */
DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN
		SELECT c.oid FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'gpucredit_registry'::regnamespace AND c.relkind IN ('r', 'S')
			AND c.relname NOT IN ('lineage_turn', 'fingerprint_turn',	/* the install script
																		 * creates their rows */
				'mirror_turn')	/* the trigger of mirror creates its rows */
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(t, '');
	END LOOP;
END
$$;
