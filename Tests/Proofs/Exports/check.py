"""Checks an exported file. tools/prove exports passes a format, a file and the expected nanoseconds."""
import decimal
import json
import re
import sys
import xml.etree.ElementTree

import jsonschema


def expect(found, wanted, path):
    """Ends the program unless `found`, the sum in the file at `path`, equals `wanted`."""
    if found != wanted:
        sys.exit(f"{path}: found {found}, not {wanted}")


def main(kind, *words):
    """Checks one file, or with "json" several."""
    if kind == "svg":
        # The widest box is the root: its title has the total.
        tree = xml.etree.ElementTree.parse(words[0])
        titles = [title.text for title in tree.iter("{http://www.w3.org/2000/svg}title")]
        sums = [int(re.search(r"\(([\d,]+) ms, 100(\.0*)?%\)$", text).group(1).replace(",", ""))
                for text in titles if text and text.startswith("all (")]
        expect(sums, [(int(words[1]) + 500_000) // 1_000_000], words[0])
        print(f"collapsed    flamegraph.pl: {sums[0]} ms in {len(titles)} boxes")
    elif kind == "report":
        with open(words[1], encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        # Fields outside the schema are errors.
        for form in [schema, *schema["$defs"].values()]:
            form["additionalProperties"] = False
        with open(words[0], encoding="utf-8") as file:
            reports = [json.loads(line) for line in file]
        for report in reports:
            jsonschema.validate(report, schema, format_checker=jsonschema.FormatChecker())
        total = round(sum(report["durationSeconds"] for report in reports) * 1e9)
        expect(total, int(words[2]), words[0])
        print(f"report       jsonschema: {total} ns in {len(reports)} reports")
    elif kind == "culprit":
        # The duration of the single stall, and the culprit's symbol and share.
        with open(words[0], encoding="utf-8") as file:
            (report,) = [json.loads(line, parse_float=decimal.Decimal) for line in file]
        culprit = report["culprit"]
        nanoseconds = int(decimal.Decimal(report["durationSeconds"]) * 10**9)
        print(nanoseconds, culprit["function"]["symbol"], round(100 * culprit["share"], 2))
    else:
        for path in words:
            with open(path, encoding="utf-8") as file:
                print(f"JSON         {path.split('/')[-1]}: {', '.join(json.load(file))}")


main(*sys.argv[1:])
