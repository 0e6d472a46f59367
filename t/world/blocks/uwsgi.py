# Answer each request with 100 ids.  The generator is made before uWSGI forks its workers.
import os
import sys

import psycopg2

sys.path.insert(0, os.environ["CLIENTS"])
from snowflake_ids import SnowflakeIds

ids = SnowflakeIds(lambda: psycopg2.connect(""))
ids.next_id()


def application(environ, start_response):
    start_response("200 OK", [("Worker", str(os.getpid()))])
    return [f"{ids.next_id()}\n".encode() for _ in range(100)]
