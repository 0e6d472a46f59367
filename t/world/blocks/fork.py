# Fork in the middle of a block, and print how many ids come twice.
#
# usage: fork.py DIRECTORY URL
import os
import sys

sys.path.insert(0, sys.argv[1])
from snowflake_ids import SnowflakeIds
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

ids = SnowflakeIds(create_engine(sys.argv[2], poolclass=NullPool).raw_connection)
seen = [ids.next_id() for _ in range(10)]
source, sink = os.pipe()
child = os.fork()
mine = [ids.next_id() for _ in range(100)]
if child == 0:
    os.write(sink, " ".join(map(str, mine)).encode())
    os._exit(0)
os.close(sink)
with open(source) as pipe:
    theirs = [int(id) for id in pipe.read().split()]
if os.waitpid(child, 0)[1] or len(theirs) != 100:
    sys.exit("the child has failed")
print(len(seen + mine + theirs) - len({*seen, *mine, *theirs}))
