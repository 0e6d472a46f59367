# Simulated servers lease worker ids from a real registry: they join, die without
# notice, pause for longer than their lease, are cloned, and have wrong clocks.  The
# time during which a server used a worker id, by its own clock, must not overlap with
# that of any other server.
#
# usage: registry_nodes.py NODES WORKER_IDS SECONDS

import random
import sys
import threading
import time
import uuid
from collections import defaultdict
from datetime import datetime, timedelta, timezone

import psycopg

LAYOUT, WORKER_IDS = "time:41 worker:8 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z", int(sys.argv[2])
DURATION = timedelta(seconds=1)
LATEST = datetime.max.replace(tzinfo=timezone.utc)
EARLIEST = datetime.min.replace(tzinfo=timezone.utc)

used = []         # (worker id, first instant, last instant), for each lease
assign_times = []
renewal_times = []
refusals = defaultdict(int)
lock = threading.Lock()
end_of_run = time.monotonic() + float(sys.argv[3])


def timed(connection, times, query, arguments):
    began = time.monotonic()
    row = connection.execute(query, arguments).fetchone()
    with lock:
        times.append(time.monotonic() - began)
    return row


def live(connection, name, offset):
    """One life of a server, from its start to its end."""
    instance = uuid.uuid4()
    clock = lambda: datetime.now(timezone.utc) + offset
    lease = None
    dies = time.monotonic() + random.expovariate(1 / 8)
    while time.monotonic() < min(dies, end_of_run):
        if lease is None:
            try:
                row = timed(connection, assign_times,
                    "SELECT worker_id, nullif(starts, '-infinity'), ends FROM snowflake_registry.acquire(%s::text, %s::uuid, %s::text, %s::bigint, %s::timestamptz, %s::interval)",
                    (name, instance, LAYOUT, WORKER_IDS, clock(), DURATION))
            except psycopg.errors.ObjectNotInPrerequisiteState:
                with lock:
                    refusals["clock ahead"] += 1
                return
            # a lock that is granted as its timeout expires results in a cancellation
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
                with lock:
                    refusals["too many at once"] += 1
                continue
            if row is None:
                with lock:
                    refusals["none free"] += 1
                time.sleep(0.2)
                continue
            worker_id, starts, ends = row
            starts = starts or EARLIEST
            lease = [worker_id, LATEST, EARLIEST]

        # ids, each with the time of the clock, while that is within the lease;
        # sometimes there is a pause before an id is handed out
        for _ in range(random.randint(1, 5)):
            now = clock()
            if starts <= now < ends:
                if random.random() < 0.02:
                    time.sleep(random.uniform(0, 3))
                lease[1], lease[2] = min(lease[1], now), max(lease[2], now)
            time.sleep(0.02)
        if random.random() < 0.02:
            time.sleep(random.uniform(0, 3))
        if random.random() < 0.05:
            offset += timedelta(seconds=random.uniform(-2, 2))

        try:
            (new_ends,) = timed(connection, renewal_times,
                "SELECT snowflake_registry.renew(%s::bigint, %s::uuid, %s::timestamptz, %s::timestamptz, %s::interval)",
                (worker_id, instance, ends, clock(), DURATION))
        except psycopg.errors.ObjectNotInPrerequisiteState:
            new_ends = ends
        if new_ends is None:
            with lock:
                used.append(tuple(lease))
            lease = None
        else:
            ends = new_ends
    if lease is not None:
        with lock:
            used.append(tuple(lease))
        # half of them release their lease
        if random.random() < 0.5:
            connection.execute("SELECT snowflake_registry.release(%s::bigint, %s::uuid, %s::timestamptz)",
                (worker_id, instance, max(lease[2], EARLIEST) + timedelta(microseconds=1)
                    if lease[2] > EARLIEST else None))


def node(number):
    with psycopg.connect(autocommit=True) as connection:
        while time.monotonic() < end_of_run:
            # a few clocks are an hour behind or ahead, many by some seconds
            offset = random.choice([0, 0, random.uniform(-5, 5), random.uniform(-5, 5), -3600, 3600])
            live(connection, f"node {number % 100}", timedelta(seconds=offset))


threads = [threading.Thread(target=node, args=(i,)) for i in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

ranges = defaultdict(list)
for worker_id, first, last in used:
    if first <= last:
        ranges[worker_id].append((first, last))
overlaps = 0
for leases in ranges.values():
    leases.sort()
    overlaps += sum(1 for before, after in zip(leases, leases[1:]) if after[0] <= before[1])


def median(times):
    return sorted(times)[len(times) // 2] * 1000 if times else 0


print(overlaps, sum(map(len, ranges.values())), len(ranges), len(assign_times),
    f"{median(assign_times):.1f}", len(renewal_times), f"{median(renewal_times):.1f}",
    dict(refusals))
