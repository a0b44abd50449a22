"""The result of `culprit top` for the rows of `culprit export --format=jsonl -o rows`, computed by Spark on any
number of machines.

    $ spark-submit top.spark.py rows
    signature,count,total_seconds,worst_seconds,first_seen,last_seen,hosts,versions,function
    1f3a09c2b7d4,4981,44800.713201533,13.499871226,2026-11-16T00:02:...,...,985,3,Catalog.rebuildIndex(for:)

Stalls that were exported twice count once. Seconds are decimal numbers with exact sums.
"""

import csv
import sys

from pyspark.sql import SparkSession

COLUMNS = (
    "row STRING, stall STRING, signature STRING, seconds DECIMAL(18, 9), began STRING, build STRING, function STRING"
)

TOP = """
    WITH stalls AS (
      SELECT
        host, stall,
        any_value(signature) AS signature,
        max(seconds) AS seconds,
        any_value(began) AS began,
        any_value(build) AS build,
        any_value(function) AS function
      FROM rows
      WHERE row = 'stall'
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
      max_by(function, began) AS function
    FROM stalls
    GROUP BY signature
    ORDER BY total_seconds DESC, count DESC, signature
"""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: spark-submit top.spark.py DIRECTORY")
    spark = (
        SparkSession.builder.appName("culprit top")
        # A host with the name 007 must not become 7.
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .getOrCreate()
    )
    spark.read.schema(COLUMNS).json(sys.argv[1]).createOrReplaceTempView("rows")
    found = spark.sql(TOP)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.columns)
    writer.writerows(found.collect())
    spark.stop()


if __name__ == "__main__":
    main()
