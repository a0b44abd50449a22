"""Compares the results of engines, one CSV file each, with the output of `culprit top --format=json`: compare.py TOP CSV..."""
import csv, decimal, json, os, sys

with open(sys.argv[1]) as file:
    top = json.load(file, parse_float=decimal.Decimal)
expected = [
    [
        group["key"], str(group["count"]), decimal.Decimal(group["totalSeconds"]), decimal.Decimal(group["worstSeconds"]),
        group["firstSeen"], group["lastSeen"], str(len(group["hosts"])), str(len(group["versions"])), group["function"],
    ]
    for group in top["groups"]
]
csv.field_size_limit(1 << 20)
for path in sys.argv[2:]:
    engine = os.path.basename(path).removesuffix(".csv")
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    found = [row[:2] + [decimal.Decimal(row[2]), decimal.Decimal(row[3])] + row[4:] for row in rows]
    for ours, theirs in zip(expected, found):
        if ours != theirs:
            sys.exit(f"culprit top has {ours}, {engine} has {theirs}")
    if len(expected) != len(found):
        sys.exit(f"culprit top has {len(expected)} problems, {engine} has {len(found)}")
total = sum(row[2] for row in expected)
print(f"{len(expected)} problems with {top['count']} stalls, {total} s")
