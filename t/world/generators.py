#!/usr/bin/python3
# The contract of the generators in clients/, for programs in any language: ids from
# blocks, and ids made under a lease of a worker id.  A program of t/world/generators takes
# these commands, a line each, and ends the answer to each by "ok" or "error" and a reason:
#
#	blocks SIZE MAX_AGE			make ids from blocks; all times are in ms
#	lease HOLDER DATACENTER_ID DURATION LAYOUT
#	next NUMBER					print ids
#	write THREADS NUMBER FILE	have threads make so many ids each; print how many per
#								second, and write them to a file, 8 bytes each, the highest first
#	clock OFFSET				set the clock forward or back
#	close
#
# usage: generators.py DATA_DIRECTORY NUMBER NAME COMMAND..., with the variables of libpq
#
# NUMBER: how many ids each of 16 threads makes.  The server is stopped and started.

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy

data, number, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
command = sys.argv[4:]
failed = 0
LAYOUT = "time:41 datacenter:5 worker:5 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z"
EPOCH = 1767225600000


class Failed(Exception):
    pass


class Network:
    """A proxy to the server, which can be cut: then nothing comes through, in either direction.
    Connections can also break so that nobody notices."""

    def __init__(self):
        self.up = threading.Event()
        self.up.set()
        self.broken = []
        self.open = []
        self.listener = socket.create_server(("localhost", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            self.up.wait()
            server_side = socket.create_connection(("localhost", int(os.environ["PGPORT"])))
            self.open.append(client)
            self.open.append(server_side)
            for pair in (client, server_side), (server_side, client):
                threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, source, sink):
        try:
            while data := source.recv(65536):
                self.up.wait()
                if source in self.broken:
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()

    def break_silently(self):
        self.broken += self.open

    def environment(self):
        return {**os.environ, "PGHOST": "localhost", "PGPORT": str(self.listener.getsockname()[1]), "PGCONNECT_TIMEOUT": "5"}


class Program:
    def __init__(self, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == "ok":
                return answer
            if line.startswith("error"):
                raise Failed(line, answer)
            answer.append(line)
        raise EOFError(f"{command} ended")

    def lease(self, *words):
        """A busy machine may take longer to connect than a short lease allows, and be granted one all the same."""
        for tries in range(20):
            error = self.fails("lease", *words)
            if not re.search("does not answer|no free worker id" if tries else "does not answer", error):
                break
            time.sleep(0.2)
        if error:
            raise Failed(error, [])

    def next(self, number=1):
        return [int(line) for line in self.do("next", number)]

    def fails(self, *words):
        """The error of a command."""
        try:
            self.do(*words)
        except Failed as error:
            return error.args[0]
        return ""

    def goes_on(self):
        """Wait until it makes ids; False if it does not for a while."""
        return any(not self.fails("next", 1) or time.sleep(0.2) for _ in range(125))

    def write(self, threads, number):
        speed = self.do("write", threads, number, f"ids.{self.process.pid}")[0]
        return speed, numpy.fromfile(f"ids.{self.process.pid}", dtype=">i8")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def check(what, passed, details=""):
    global failed
    failed += not passed
    print(f"{'ok' if passed else 'not ok'} - generators: {name}: {what}", flush=True)
    if details != "" and not passed:
        print(f"# {details}", flush=True)


def query(sql):
    return subprocess.run(["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command", sql],
                          check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def server(*words):
    subprocess.run(["pg_ctl", "--pgdata", data, "--wait", "--log", "server.log", *words], check=True, stdout=subprocess.DEVNULL)


def distinct(*ids):
    together = numpy.concatenate([numpy.asarray(each, dtype=numpy.int64) for each in ids])
    together.sort()
    return bool((together[1:] != together[:-1]).all())


def try_blocks():
    program = Program()
    program.do("blocks", 100000, 60000)
    others = subprocess.Popen(["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command",
                               "SELECT snowflake_nextval() FROM generate_series(1, 1000000)"], stdout=open("others", "w", encoding="ascii"))
    speed, ids = program.write(16, number)
    others.wait()
    print(f"# {name}: blocks: {speed}")
    check(f"16 threads make {len(ids)} different ids, beside the server's own", distinct(ids, numpy.loadtxt("others", dtype=numpy.int64)) and
          len(ids) == 16 * number)
    program.do("close")
    check("no ids after close()", "closed" in program.fails("next", 1))

    program.do("blocks", 1000, 60000)
    ids = program.next(600)
    time.sleep(0.5)    # the next block is fetched
    server("stop", "--mode=immediate")
    try:
        program.do("next", 10000)
    except Failed as error:
        ids += [int(line) for line in error.args[1]]
    check("without the database, ids go on to the end of the second block, and not beyond", len(ids) == 2000, len(ids))
    check("and then fail", "no snowflake ids" in program.fails("next", 1))
    server("start")
    ids += program.next(3000)
    check("and go on with the database, without one twice", distinct(ids) and len(ids) == 5000)

    time.sleep(3)    # after the start of the server, ids are ahead of the clock
    network = Network()
    cut_off = Program(network.environment())
    cut_off.do("blocks", 1000, 60000)
    ids = cut_off.next(1)
    network.up.clear()
    begin = time.time()
    ids += cut_off.next(400)
    check("with the network cut, ids go on", time.time() - begin < 5)
    errors = cut_off.fails("next", 10000)
    check("to the end of the block, and then fail", "no snowflake ids" in errors and time.time() - begin < 25, errors)
    network.up.set()
    check("and go on with the network", cut_off.goes_on() and distinct(ids, cut_off.next(5000)))
    network.break_silently()
    cut_off.fails("next", 2000)
    for tries in range(5):
        if not cut_off.fails("next", 2000):
            break
    check("a connection that hangs does not keep others from being made", tries < 4)
    cut_off.end()

    program.do("blocks", 1000, 1000)
    first, = program.next()
    time.sleep(2)
    second, = program.next()
    check("ids of an old block are not used", query(f"SELECT snowflake_timestamp({second}) - snowflake_timestamp({first}) > '1.5 s'") == "t")
    program.end()


def try_misuse():
    program = Program()
    for words, named in (("blocks", 0, 60000), "size"), (("blocks", 1000001, 60000), "size"), (("blocks", 1000, 0), "(?i)max_?age"):
        error = program.fails(*words)
        check(f"{' '.join(map(str, words))}: refused", re.search(named, error) and "must be" in error, error)

    # a server that is slow, or whose function is another one
    query("ALTER FUNCTION snowflake_reserve(integer) RENAME TO quick_reserve")
    for what, type_name, body, reason in (
            ("a block that is older than max_age when it arrives", "bigint",
             "SELECT pg_sleep(0.5); SELECT first_id, last_id FROM quick_reserve(count)", "to arrive"),
            ("no rows", "bigint", "SELECT 1::bigint, 1::bigint WHERE false", "no ids"),
            ("text in place of integers", "text", "SELECT 'tea', 'tea'", "none")):
        query(f"CREATE FUNCTION snowflake_reserve(count integer, OUT first_id {type_name}, OUT last_id {type_name})"
              f" RETURNS SETOF record LANGUAGE sql AS $$ {body} $$")
        program.do("blocks", 1000, 200)
        begin = time.time()
        error = program.fails("next", 1)
        check(f"{what}: an error", reason in error, error)
        check(f"{what}: at once", time.time() - begin < 5)
        query("DROP FUNCTION snowflake_reserve(integer)")
    query("ALTER FUNCTION quick_reserve(integer) RENAME TO snowflake_reserve")

    query("DROP EXTENSION IF EXISTS snowflake_registry; CREATE EXTENSION snowflake_registry")
    error = program.fails("lease", "first", 0, 9000, "time:41 worker:10 sequence:12")
    check("a layout without tick and epoch is refused", "tick and epoch" in error, error)
    check("and is not that of the registry", query("SELECT layout IS NULL FROM snowflake_registry.registry") == "t")
    program.end()


def parts(identifier):
    return identifier >> 22, identifier >> 17 & 31, identifier >> 12 & 31


def try_lease():
    query("DROP EXTENSION IF EXISTS snowflake_registry; CREATE EXTENSION snowflake_registry")
    program, other = Program(), Program()
    program.lease("first", 3, 9000, LAYOUT)
    other.lease("second", 3, 9000, LAYOUT)
    identifier, = program.next()
    tick, datacenter_id, worker_id = parts(identifier)
    check("an id has the time, the datacenter id and the worker id", abs(tick + EPOCH - time.time() * 1000) < 1000 and datacenter_id == 3 and
          query("SELECT worker_id FROM snowflake_registry.leases WHERE holder = 'first' AND state = 'held'") == str(worker_id), parts(identifier))
    third = Program()
    check("another layout is refused", "is for snowflake ids of the layout" in third.fails("lease", "third", 0, 9000, LAYOUT.replace("12", "11")))
    third.end()
    speed, ids = program.write(16, number)
    print(f"# {name}: lease: {speed}")
    others = other.write(16, 10000)[1]
    check(f"16 threads make {len(ids)} different ids, beside another process", distinct(ids, others) and len(ids) == 16 * number)

    time.sleep(4)    # they are ahead of the clock
    last = program.next()[0]
    program.do("clock", -2500)
    ids = program.next(1000)
    check("ids increase though the clock is set back by 2.5 s", min(ids) > last)
    program.do("clock", -60000)
    begin = time.time()
    check("and fail if it is set back by a minute", "too far ahead" in program.fails("next", 1))
    check("at once", time.time() - begin < 0.9)
    program.do("clock", 60000)
    check("and if it is beyond the lease", "has ended" in program.fails("next", 1))
    program.do("clock", 0)
    after = program.next(10)
    check("and go on when it is right", min(after) > max(ids))

    server("stop", "--mode=fast")
    check("without the registry, ids go on", len(program.next(1000)) == 1000)
    time.sleep(10)
    check("until the lease ends", "has ended" in program.fails("next", 1))
    server("start")
    check("and again when the registry is back", program.goes_on())

    last = program.next()[0]
    program.do("close")
    check("no ids after close()", "closed" in program.fails("next", 1))
    check("the lease is given back", query("SELECT count(*) FROM snowflake_registry.leases WHERE holder = 'first' AND state = 'held'") == "0")
    program.lease("first", 3, 9000, LAYOUT)
    identifier, = program.next()
    check("the next one gets the worker id again, and greater ids", identifier > last and parts(identifier)[2] == parts(last)[2], (parts(identifier), parts(last)))
    program.end()
    other.end()

    # the same with a network that is cut
    network = Network()
    program = Program(network.environment())
    program.lease("cut_off", 0, 6000, LAYOUT)
    ids = program.next(1000)
    network.up.clear()
    ids += program.next(1000)
    time.sleep(7)
    check("with the network cut, ids go on until the lease ends", "has ended" in program.fails("next", 1))
    network.up.set()
    goes_on = program.goes_on()
    ids += program.next(1000)
    check("and again when it is back", goes_on and distinct(ids))
    network.break_silently()
    failed_for = 0
    for tries in range(30):
        time.sleep(0.5)
        failed_for += program.fails("next", 1) != ""
    ids += program.next(1000)
    check("a connection that hangs costs no lease", failed_for == 0 and distinct(ids), failed_for)
    program.end()

    # one that has ended, where tick and sequence fill 63 bits
    query("DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry")
    program = Program()
    program.lease("ended", 0, 2000, "time:36 sequence:27 tick:1us epoch:2026-01-01T00:00:00Z")
    check("no ids after the last tick", "has ended" in program.fails("next", 1))
    program.end()

    # microseconds of an epoch
    query("DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry")
    program = Program()
    program.lease("exact", 0, 2000, "time:53 sequence:10 tick:1us epoch:2026-01-01T00:00:00.000456Z")
    tick = program.next()[0] >> 10
    check("the epoch is exact", abs(tick + EPOCH * 1000 + 456 - time.time() * 1e6) < 1e6 and (name != "node" or tick % 1000 == 544))
    program.end()

    # one worker id for two: the first one sleeps through the end of its lease
    query("DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry")
    layout = "time:41 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z"
    program, other = Program(), Program()
    program.lease("first", 0, 8000, layout)
    check("no worker id is free", "no free worker id" in other.fails("lease", "second", 0, 8000, layout))
    ids = program.next(1000)
    os.kill(program.process.pid, signal.SIGSTOP)
    time.sleep(8.5)
    other.lease("second", 0, 8000, layout)
    others = other.next(1000)
    os.kill(program.process.pid, signal.SIGCONT)
    try:
        ids += program.next(1000)
    except Failed as error:
        ids += [int(line) for line in error.args[1]]
    others += other.next(1000)
    check("a process that slept makes no id again", distinct(ids, others) and "has ended" in program.fails("next", 1))
    other.do("close")
    goes_on = program.goes_on()
    ids += program.next(1000)
    check("and gets the worker id when the other one gives it back", goes_on and distinct(ids, others))
    program.end()
    other.end()


try_misuse()
try_blocks()
try_lease()
sys.exit(failed > 0)
