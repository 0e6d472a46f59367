# Make ids in a process and in a child that was forked, by Python or, as a server in C does,
# behind its back.  Prints the checks.
#
# usage: fork.py DIRECTORY URL
#
# DIRECTORY is clients/python.
import ctypes
import os
import sys

sys.path.insert(0, sys.argv[1])
from snowflake_ids import SnowflakeIds, SnowflakeLease
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

connect = create_engine(sys.argv[2], poolclass=NullPool).raw_connection


def make(generator):
    try:
        return [generator.next_id() for _ in range(100)]
    except RuntimeError:
        return []


# The ids of the parent, and those of the child.
def fork_beside(generator, fork):
    mine = [generator.next_id() for _ in range(10)]
    source, sink = os.pipe()
    child = fork()
    mine += make(generator)
    if child == 0:
        os.write(sink, " ".join(map(str, mine[10:])).encode())
        generator.close()
        os._exit(0)
    os.close(sink)
    with open(source, encoding="ascii") as pipe:
        theirs = [int(id) for id in pipe.read().split()]
    if os.waitpid(child, 0)[1]:
        sys.exit("the child has failed")
    return mine + make(generator), theirs


for name, fork in ("Python", os.fork), ("C", ctypes.PyDLL(None).fork):
    mine, theirs = fork_beside(SnowflakeIds(connect), fork)
    good = len(mine) == 210 and len(theirs) == 100 and len({*mine, *theirs}) == 310
    print(f"{'ok' if good else 'not ok'} - blocks: no id comes twice after a fork by {name}")
    lease = SnowflakeLease(connect, "fork", "time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z")
    mine, theirs = fork_beside(lease, fork)
    good = len(mine) == 210 and theirs == []
    print(f"{'ok' if good else 'not ok'} - lease: it stays the parent's after a fork by {name}")
    lease.close()
print("done")
