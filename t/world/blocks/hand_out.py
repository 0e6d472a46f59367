# Hand out ids in several threads and forked children, each of which writes its ids to a
# file of its own.
#
# usage: hand_out.py DIRECTORY URL FILE THREADS CHILDREN COUNT
#
# DIRECTORY is clients/python.  Waits while the server is down.
import os
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
from snowflake_ids import SnowflakeIds
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

url, file = sys.argv[2:4]
thread_count, child_count, count = map(int, sys.argv[4:])
ids = SnowflakeIds(create_engine(url, poolclass=NullPool).raw_connection)


def next_id():
    for _ in range(600):
        try:
            return ids.next_id()
        except RuntimeError:
            time.sleep(0.1)
    return ids.next_id()


# an id that was written counts, even if the process is killed then
def hand_out(output, count):
    for _ in range(count):
        os.write(output, b"%d\n" % next_id())


def start_threads(name):
    threads = []
    for number in range(thread_count):
        output = os.open(f"{name}.{number}", os.O_CREAT | os.O_WRONLY)
        threads.append(threading.Thread(target=hand_out, args=(output, count)))
        threads[-1].start()
    return threads


# in the middle of a block, and while threads hand out ids
threads = []
if child_count:
    hand_out(os.open(f"{file}.first", os.O_CREAT | os.O_WRONLY), 10)
threads += start_threads(f"{file}.parent")
children = []
for number in range(child_count):
    child = os.fork()
    if child == 0:
        for thread in start_threads(f"{file}.child_{number}"):
            thread.join()
        os._exit(0)
    children.append(child)
for thread in threads:
    thread.join()
if any(os.waitpid(child, 0)[1] for child in children):
    sys.exit("a child has failed")
