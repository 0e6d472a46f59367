# Read what bench/run left in a directory, for bench/plot and bench/tables.

import csv
import os
from collections import defaultdict

NAMES = {
    "snowflake_nextval()": "snowflake_nextval()",
    "bigint DEFAULT snowflake_nextval()": "snowflake_nextval()",
    "snowflake_reserve(1000)": "snowflake_reserve(1000)",
    "nextval('cache_1')": "nextval()",
    "bigserial": "bigserial",
    "nextval('step_1000')": "nextval(), INCREMENT 1000",
    "nextval('cache_1000')": "nextval(), CACHE 1000",
    "clock_timestamp()": "clock_timestamp()",
    "gen_random_uuid()": "gen_random_uuid()",
    "uuid DEFAULT gen_random_uuid()": "gen_random_uuid()",
    "bigint DEFAULT (random() * 9e18)::bigint": "random bigint",
    "uuidv7()": "uuidv7()",
    "uuid DEFAULT uuidv7()": "uuidv7()",
    "empty()": "an empty C function",
    "i": "the loop alone",
    "instagram()": "Instagram (PL/pgSQL)",
    "mastodon()": "Mastodon (PL/pgSQL)",
    "snowflake_mask(i, 'key')": "snowflake_mask()",
    "sha256(int8send(i))": "sha256()",
}


def read(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def read_figures(directory):
    """Map (measure, rival) to its values, one for each round."""
    figures = defaultdict(list)
    for row in read(directory, "figures.csv"):
        figures[row["measure"], row["rival"]].append(float(row["value"]))
    return figures
