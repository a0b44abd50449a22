-- The result of `culprit top` for the rows of `culprit export --format=jsonl -o rows`, computed on one machine:
--
--   $ cd rows && duckdb -csv <top.duckdb.sql
--   signature,count,total_seconds,worst_seconds,first_seen,last_seen,hosts,versions,function
--   1f3a09c2b7d4,4981,44800.713201533,13.499871226,2026-11-16T00:02:…,…,985,3,Catalog.rebuildIndex(for:)
--
-- Stalls that were exported twice count once. Seconds are decimal numbers with exact sums.
WITH stalls AS (
  SELECT
    host, stall,
    any_value(signature) AS signature,
    max(seconds) AS seconds,
    any_value(began) AS began,
    any_value(build) AS build,
    any_value(function) AS function
  FROM read_json(
    'day=*/host=*/part-*.jsonl',
    format = 'newline_delimited',
    hive_partitioning = true,
    hive_types = {'day': VARCHAR, 'host': VARCHAR},
    columns = {
      'row': 'VARCHAR', 'stall': 'VARCHAR', 'signature': 'VARCHAR', 'seconds': 'DECIMAL(18, 9)', 'began': 'VARCHAR',
      'build': 'VARCHAR', 'function': 'VARCHAR'
    }
  )
  WHERE "row" = 'stall'
  GROUP BY host, stall
)
SELECT
  signature,
  count(*) AS count,
  sum(seconds) AS total_seconds,
  max(seconds) AS worst_seconds,
  min(began) AS first_seen,
  max(began) AS last_seen,
  count(DISTINCT nullif(host, 'unknown')) AS hosts,
  count(DISTINCT nullif(build, '')) AS versions,
  arg_max(function, began) AS function
FROM stalls
GROUP BY signature
ORDER BY total_seconds DESC, count DESC, signature;
