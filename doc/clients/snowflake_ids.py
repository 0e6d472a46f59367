# Ids from blocks of snowflake_reserve(), and ids that a process makes by itself, with a worker id
# leased from snowflake_registry.  README.md has their contract.
#
#	ids = SnowflakeIds(lambda: psycopg.connect(autocommit=True))
#	ids.next_id()
#
#	lease = SnowflakeLease(lambda: psycopg.connect(autocommit=True), "orders-1",
#	    "time:41 datacenter:5 worker:5 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z")
#	lease.next_id()
#
# Any DB-API driver with the parameter style %s will do.
import datetime
import os
import queue
import threading
import time
import uuid
from operator import length_hint

MAX_WAIT = 1_000_000    # us
ANSWER_TIMEOUT = 10    # s


# The lock of a Condition lets a thread in again: a signal handler must not make an id while
# the thread that it has interrupted makes one.
class Alone:
    def __init__(self):
        self.lock = threading.Lock()

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            raise RuntimeError("next_id() was called by a signal handler during a call of next_id()")

    def __exit__(self, *exception):
        self.lock.release()


class SnowflakeIds:
    """Any number of threads may share it.  "max_age" in seconds."""

    def __init__(self, connect, size=1000, max_age=60):
        self.connect, self.size, self.max_age = connect, size, max_age
        self.closed = False
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    # A forked child must not hand out the ids of its parent, and the lock may be held by
    # a thread that the child does not have.
    def forget(self):
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.blocks = []    # [iterator over its ids, when it was asked for], in order of use
        self.left = 0
        self.fetching = None    # what is under way
        self.fetches = 0
        self.failure = None

    def next_id(self):
        """Return an id that nobody else gets."""
        with self.lock:
            while not self.closed:
                if not self.blocks:
                    self.wait_for_block()
                    continue
                block = self.blocks[0]
                # at once, so that a signal handler may make ids meanwhile
                snowflake_id = next(block[0], None) if time.monotonic() - block[1] < self.max_age else None
                if snowflake_id is None:
                    self.left -= length_hint(block[0])
                    self.blocks.remove(block)
                    continue
                self.left -= 1
                if self.left == self.size // 2:
                    self.fetch_next()
                return snowflake_id
            raise RuntimeError("these snowflake ids are closed")

    def wait_for_block(self):
        before = self.fetches
        self.fetch_next()
        fetch = self.fetching
        if not self.changed.wait_for(lambda: self.fetches != before or self.closed, ANSWER_TIMEOUT):
            self.end(fetch)    # it does not hold up the next one
            raise RuntimeError("no snowflake ids: the database does not answer")
        if not self.blocks and self.failure:
            raise RuntimeError(f"no snowflake ids: the database has reserved none: {self.failure}") from self.failure

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def fetch_next(self):
        if self.fetching is None:
            fetch = object()
            threading.Thread(target=self.fetch, args=(fetch, self.changed), daemon=True).start()
            self.fetching = fetch

    def end(self, fetch):
        if self.fetching is fetch:
            self.fetching = None

    def fetch(self, fetch, changed):
        begin, rows, failure = time.monotonic(), [], None
        try:
            connection = self.connect()
            try:
                cursor = connection.cursor()
                cursor.execute("SELECT first_id, last_id FROM snowflake_reserve(%s)", [self.size])
                rows = cursor.fetchall()
            finally:
                connection.close()
        except Exception as error:
            failure = error
        with changed:
            self.blocks += [[iter(range(first, last + 1)), begin] for first, last in rows]
            self.left += sum(last - first + 1 for first, last in rows)
            self.failure = failure
            self.end(fetch)
            self.fetches += 1
            changed.notify_all()


class SnowflakeLease:
    """Any number of threads may share it, but no forked child.  The layout is a text as
    snowflake_capacity() returns it; "duration" is in seconds."""

    def __init__(self, connect, holder, layout, datacenter_id=0, duration=60, now=lambda: time.time_ns() // 1000):
        self.connect, self.holder, self.layout, self.duration, self.now = connect, holder, layout, duration, now
        self.max_ahead = min(5_000_000, duration * 1_000_000 // 3)    # us; less than what is left of a lease that is renewed
        self.instance = str(uuid.uuid4())    # a new one at each start
        self.changed = threading.Condition()
        self.alone = Alone()
        self.calls = threading.Lock()    # one call of the registry at a time
        self.closed = False
        self.worker_id = self.starts = self.ends = 0    # us since 1970; no lease: both 0
        self.word = 0    # tick and sequence of the last id
        self.failure = None
        self.read_layout(datacenter_id)
        os.register_at_fork(after_in_child=self.forget)
        self.keep()
        threading.Thread(target=self.keep_on, daemon=True).start()

    def next_id(self):
        """Return an id that nobody else makes."""
        with self.changed:
            while True:
                if self.closed:
                    raise RuntimeError("this snowflake lease is closed")
                with self.alone:
                    now = self.now()
                    word = max(self.word + 1, max((now - self.epoch) // self.tick, self.first) << self.sequence_bits)
                    tick = word >> self.sequence_bits
                    if tick >= self.end:
                        raise RuntimeError("snowflake lease has ended") from self.failure
                    missing = tick * self.tick + self.epoch - self.max_ahead - now
                    if missing > MAX_WAIT:
                        raise RuntimeError(f"snowflake ids are too far ahead of the clock, by another {missing // 1000} ms")
                    if missing <= 0:
                        self.word = word
                        return (tick << self.shifts["time"] | self.datacenter | self.worker_id << self.shifts["worker"]
                                | (word & (1 << self.sequence_bits) - 1) << self.shifts["sequence"])
                self.changed.wait(missing / 1e6)

    def close(self):
        """Give the lease back."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        with self.calls:
            if self.ends:
                # later than all of its ids
                used = max(((self.word >> self.sequence_bits) + 1) * self.tick + self.epoch, self.starts)
                self.ask(f"SELECT snowflake_registry.release(%s, %s::uuid, {INSTANT})", self.worker_id, self.instance, used)
                self.ends = 0

    def keep_on(self):
        due = time.monotonic()
        while True:
            # a call that hangs for a third must not put off the next one
            due = max(due + self.duration / 3, time.monotonic())
            with self.changed:
                if self.changed.wait_for(lambda: self.closed, due - time.monotonic()):
                    return
            try:
                self.keep()
            except Exception as error:    # the next call may succeed, and the lease goes on until its end
                self.failure = error

    # A forked child has no lease: its parent goes on with it.
    def forget(self):
        self.changed, self.alone, self.calls = threading.Condition(), Alone(), threading.Lock()
        self.closed, self.ends = True, 0

    # Renew the lease, or get another one.
    def keep(self):
        with self.calls:
            if self.closed:
                return
            length = f"{self.duration} s"
            if self.ends:
                row = self.ask(f"SELECT {MICROSECONDS.format(f'snowflake_registry.renew(%s, %s::uuid, {INSTANT}, {INSTANT}, %s::interval)')}",
                               self.worker_id, self.instance, self.ends, self.now(), length)
                if row[0]:    # not NULL: it is not lost
                    self.set_lease(self.worker_id, self.starts, row[0])
                    return
            row = self.ask(f"SELECT worker_id, {MICROSECONDS.format('starts')}, {MICROSECONDS.format('ends')}"
                           f" FROM snowflake_registry.acquire(%s, %s::uuid, %s, %s, {INSTANT}, %s::interval)",
                           self.holder, self.instance, self.layout, 1 << self.bits.get("worker", 0), self.now(), length)
            if row is None:
                raise RuntimeError("registry has no free worker id")
            self.set_lease(*row)

    def set_lease(self, worker_id, starts, ends):
        with self.changed:
            if worker_id != self.worker_id:
                # in the same tick, ids of another worker may sort below the last one
                self.word |= (1 << self.sequence_bits) - 1
            self.worker_id, self.starts, self.ends, self.failure = worker_id, starts, ends, None
            # ids are of ticks from the first one on, and before the end
            self.first, self.end = max(self.tick_from(starts), 0), min(self.tick_from(ends), self.ticks)

    # Run a statement, and commit it.  Returns its row, or None.  Does not wait for long.
    def ask(self, sql, *arguments):
        answers = queue.SimpleQueue()
        threading.Thread(target=self.answer, args=(answers, sql, arguments), daemon=True).start()
        try:
            row, failure = answers.get(timeout=min(self.duration / 3, ANSWER_TIMEOUT))
        except queue.Empty:
            raise RuntimeError("registry does not answer") from None
        if failure:
            raise failure
        return row

    def answer(self, answers, sql, arguments):
        try:
            answers.put((self.query(sql, arguments), None))
        except Exception as error:
            answers.put((None, error))

    def query(self, sql, arguments):
        connection = self.connect()
        try:
            # standbys that the registry has to wait for may not have what it warns of
            warnings = []
            if hasattr(connection, "add_notice_handler"):
                connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
            else:
                warnings = connection.notices    # of psycopg2
            cursor = connection.cursor()
            cursor.execute(sql, arguments)
            row = cursor.fetchone()
            connection.commit()
            if warnings:
                raise RuntimeError(warnings[0])
            return row
        finally:
            connection.close()

    # The first tick that begins at an instant or later.
    def tick_from(self, instant):
        return -((self.epoch - instant) // self.tick)

    def read_layout(self, datacenter_id):
        words = dict(word.split(":", 1) for word in self.layout.split())
        unit = words["tick"].lstrip("0123456789")
        self.tick = int(words.pop("tick")[:-len(unit)]) * {"us": 1, "ms": 1000, "s": 1_000_000}[unit]
        epoch = datetime.datetime.fromisoformat(words.pop("epoch").replace("Z", "+00:00"))
        self.epoch = (epoch - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
        self.bits = {name: int(bits) for name, bits in words.items()}
        self.shifts, shift = {"worker": 0, "sequence": 0, "datacenter": 0}, 0
        for name in reversed(self.bits):    # lane, timeline and tag are 0
            self.shifts[name] = shift
            shift += self.bits[name]
        self.sequence_bits = self.bits.get("sequence", 0)
        self.ticks = 1 << self.bits["time"]
        if not 0 <= datacenter_id < 1 << self.bits.get("datacenter", 0):
            raise ValueError(f"datacenter id {datacenter_id} does not fit the layout")
        self.datacenter = datacenter_id << self.shifts["datacenter"]


INSTANT = "timestamptz 'epoch' + %s * interval '1 microsecond'"
MICROSECONDS = "(extract(epoch FROM greatest({}, 'epoch')) * 1000000)::bigint"
