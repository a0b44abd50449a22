"""Runs the query in the file QUERY on the rows in the directory ROWS, and writes the result to OUT, as CSV."""
import csv, duckdb, os, sys

query_path, rows, out = sys.argv[1:]
with open(query_path) as file:
    query = file.read()
with open(out, "w", newline="") as file:
    os.chdir(rows)
    found = duckdb.sql(query)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(found.columns)
    writer.writerows(found.fetchall())
