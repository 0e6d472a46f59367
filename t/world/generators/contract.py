# The commands of t/world/generators.py, for clients/python.
import sys
import threading
import time
from array import array

import psycopg

from snowflake_ids import SnowflakeIds, SnowflakeLease


def write(ids, threads, number, file):
    parts = [array("q") for _ in range(threads)]
    workers = [threading.Thread(target=lambda part=part: part.extend(ids() for _ in range(number))) for part in parts]
    begin = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"{threads * number / (time.monotonic() - begin):.0f} ids per second")
    with open(file, "wb") as out:
        for part in parts:
            part.byteswap()
            part.tofile(out)


def connect():
    return psycopg.connect(autocommit=True)


offset = 0
for line in sys.stdin:
    words = line.rstrip("\n").split(" ", 4)
    try:
        if words[0] == "blocks":
            generator = SnowflakeIds(connect, int(words[1]), int(words[2]) / 1000)
        elif words[0] == "lease":
            generator = SnowflakeLease(connect, words[1], words[4], int(words[2]), int(words[3]) / 1000,
                                       lambda: time.time_ns() // 1000 + offset * 1000)
        elif words[0] == "next":
            for _ in range(int(words[1])):
                print(generator.next_id())
        elif words[0] == "write":
            write(generator.next_id, int(words[1]), int(words[2]), words[3])
        elif words[0] == "clock":
            offset = int(words[1])
        elif words[0] == "close":
            generator.close()
        print("ok", flush=True)
    except Exception as error:
        print("error", str(error).replace("\n", " "), flush=True)
