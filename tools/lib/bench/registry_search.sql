-- registry_search.sql: 200 searches by two tags and a word or two; the last line
-- is the time that 95 % of them stay below.
CREATE TABLE bench.search (ms double precision, found bigint, words text, tags jsonb);
SELECT setseed(0.25);
DO $$
DECLARE
	started timestamptz;
	n bigint;
	words text;
	tags jsonb;
BEGIN
	FOR i IN 1 .. 220 LOOP
		words := 'w' || floor(20000 * random() ^ 4)
			|| CASE WHEN i % 2 = 0 THEN ' w' || floor(20000 * random() ^ 4) ELSE '' END;
		tags := jsonb_build_object('task', floor(40 * random() ^ 2)::text,
			CASE i % 3 WHEN 0 THEN 'library' WHEN 1 THEN 'bits' ELSE 'language' END,
			floor(5 * random())::text);
		started := clock_timestamp();
		SELECT count(*) INTO n
		FROM gpucredit_registry.search('account:7/', words, tags);
		CONTINUE WHEN i <= 20;			/* pages that nobody read yet */
		INSERT INTO bench.search
		VALUES (1000 * extract(epoch FROM clock_timestamp() - started), n, words, tags);
	END LOOP;
END
$$;
SELECT * FROM bench.search ORDER BY ms DESC LIMIT 10;
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) FROM bench.search;
