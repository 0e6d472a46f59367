"""Ids that a process makes by itself, with a worker id leased from snowflake_registry."""
import datetime
import os
import queue
import re
import threading
import time
import uuid
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

MAX_WAIT = 1_000_000    # us
ANSWER_TIMEOUT = 10    # s
UNITS = {"us": 1, "ms": 1000, "s": 1_000_000}
INSTANT = "timestamptz 'epoch' + %s * interval '1 microsecond'"
MICROSECONDS = "(extract(epoch FROM greatest({}, 'epoch')) * 1000000)::bigint"


class _Lease(NamedTuple):
    worker_id: int
    starts: int    # us since 1970, as all instants here
    ends: int
    first: int    # ids are of ticks from this one on
    end: int    # and before this one


class SnowflakeLease:
    """Any number of threads may share it, but no forked child.

    connect: returns a new connection to the registry, by psycopg or psycopg2
    holder: a name for this process, which the registry shows
    layout: a text as snowflake_capacity() returns it
    duration: of the lease, in seconds
    now: the clock, in microseconds since 1970
    """

    # Each id, and each change of the lease, is a link of a chain: a dict with its word (tick and
    # sequence), the lease from there on (None: closed), and the next link.  setdefault() is
    # atomic, so each link gets one successor, and each word is taken once, whatever threads and
    # signal handlers do, and wherever they raise an exception.

    def __init__(self, connect: Callable[[], Any], holder: str, layout: str, datacenter_id: int = 0,
                 duration: float = 60, now: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        if not callable(connect):
            raise TypeError("connect must be a function that returns a connection")
        if not duration > 0:
            raise ValueError(f"duration must be greater than 0, not {duration!r}")
        self._connect, self._holder, self._layout, self._duration, self._now = connect, holder, layout, duration, now
        self._max_ahead = min(5_000_000, int(duration * 1_000_000) // 3)    # us; less than what is left of a lease that is renewed
        self._instance = str(uuid.uuid4())    # a new one at each start
        self._process = os.getpid()
        self._calls = threading.Lock()    # one call of the registry at a time
        self._closing = threading.Event()
        self._failure: Optional[Exception] = None    # of the last call of the registry
        self._read_layout(datacenter_id)
        self._held = _Lease(0, 0, 0, 0, 0)    # what is to be given back
        self._last: Dict[str, Any] = {"word": 0, "lease": self._held}
        self._keep()
        os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._keep_on, daemon=True).start()

    def next_id(self) -> int:
        """Return an id that nobody else makes."""
        while True:
            # a server that forks in C, such as uWSGI, calls no hooks of Python
            if self._process != os.getpid():
                raise RuntimeError("this snowflake lease is that of another process")
            link = self._end_of_chain()
            lease: Optional[_Lease] = link["lease"]
            if lease is None:
                raise RuntimeError("this snowflake lease is closed")
            now = self._now()
            word: int = max(link["word"] + 1, max((now - self._epoch) // self._tick, lease.first) << self._sequence_bits)
            tick = word >> self._sequence_bits
            if tick >= lease.end:
                raise RuntimeError("snowflake lease has ended") from self._failure
            missing = tick * self._tick + self._epoch - self._max_ahead - now
            if missing > MAX_WAIT:
                raise RuntimeError(f"snowflake ids are too far ahead of the clock, by another {missing // 1000} ms")
            if missing > 0:
                time.sleep(missing / 1_000_000)
            elif self._append(link, word, lease):
                return (tick << self._shifts["time"] | self._datacenter | lease.worker_id << self._shifts["worker"]
                        | (word & self._sequence_mask) << self._shifts["sequence"])

    def close(self) -> None:
        """Give the lease back.  Later calls of next_id() fail."""
        if self._process != os.getpid():
            return
        self._closing.set()
        with self._calls:
            while True:
                link = self._end_of_chain()
                if link["lease"] is None or self._append(link, link["word"], None):
                    break
            if self._held.ends:
                # later than all of its ids
                used = ((link["word"] >> self._sequence_bits) + 1) * self._tick + self._epoch
                self._ask(f"SELECT snowflake_registry.release(%s, %s::uuid, {INSTANT})",
                          self._held.worker_id, self._instance, max(used, self._held.starts))
                self._held = self._held._replace(ends=0)

    def _end_of_chain(self) -> Dict[str, Any]:
        link = self._last
        while "next" in link:
            link = link["next"]
        return link

    # Append to the chain, unless somebody else was first.
    def _append(self, link: Dict[str, Any], word: int, lease: Optional[_Lease]) -> bool:
        new = {"word": word, "lease": lease}
        if link.setdefault("next", new) is not new:
            return False
        self._last = new
        return True

    # The registry may lack the last renewal.  So do not put off the next one.
    def _keep_on(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self._duration / 3, time.monotonic())
            if self._closing.wait(due - time.monotonic()):
                return
            try:
                self._keep()
            except Exception as error:    # the next call may succeed, and the lease goes on until its end
                self._failure = error

    # A forked child has no lease: its parent goes on with it.
    def _forget(self) -> None:
        self._process = 0

    # Renew the lease, or get another one.
    def _keep(self) -> None:
        with self._calls:
            held = self._end_of_chain()["lease"]
            if held is None:
                return
            length = f"{self._duration} s"
            if held.ends:
                row = self._ask(f"SELECT {MICROSECONDS.format(f'snowflake_registry.renew(%s, %s::uuid, {INSTANT}, {INSTANT}, %s::interval)')}",
                                held.worker_id, self._instance, held.ends, self._now(), length)
                if row[0]:    # not NULL: it is not lost
                    self._set_lease(held.worker_id, held.starts, row[0])
                    return
            row = self._ask(f"SELECT worker_id, {MICROSECONDS.format('starts')}, {MICROSECONDS.format('ends')}"
                            f" FROM snowflake_registry.acquire(%s, %s::uuid, %s, %s, {INSTANT}, %s::interval)",
                            self._holder, self._instance, self._layout, self._worker_ids, self._now(), length)
            if row is None:
                raise RuntimeError("registry has no free worker id")
            self._set_lease(*row)

    # Only one thread at a time does this, holding the lock of calls.
    def _set_lease(self, worker_id: int, starts: int, ends: int) -> None:
        first, end = max(self._tick_from(starts), 0), min(self._tick_from(ends), self._ticks)
        self._held = _Lease(worker_id, starts, ends, first, end)
        self._failure = None
        while True:
            link = self._end_of_chain()
            word = link["word"]
            if link["lease"].worker_id != worker_id:
                # in the same tick, ids of another worker may sort below the last one
                word |= self._sequence_mask
            if self._append(link, word, self._held):
                return

    # Run a statement, and commit it.  Returns its row, or None.  Does not wait for long.
    def _ask(self, sql: str, *arguments: Any) -> Any:
        answers: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        threading.Thread(target=self._answer, args=(answers, sql, arguments), daemon=True).start()
        try:
            row, failure = answers.get(timeout=min(self._duration / 3, ANSWER_TIMEOUT))
        except queue.Empty:
            raise RuntimeError("registry does not answer") from None
        if failure:
            raise failure
        return row

    def _answer(self, answers: "queue.SimpleQueue[Any]", sql: str, arguments: Sequence[Any]) -> None:
        try:
            answers.put((self._query(sql, arguments), None))
        except Exception as error:
            answers.put((None, error))

    def _query(self, sql: str, arguments: Sequence[Any]) -> Any:
        connection = self._connect()
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
    def _tick_from(self, instant: int) -> int:
        return -((self._epoch - instant) // self._tick)

    def _read_layout(self, datacenter_id: int) -> None:
        fields = re.findall(r"(\w+):(\d+) ", self._layout)
        rest = re.fullmatch(r"time:\d+(?: \w+:\d+)* tick:(\d+)(us|ms|s) epoch:(\S+)", self._layout)
        if rest is None:
            raise ValueError(f"a layout has fields, tick and epoch, as snowflake_capacity() returns it: {self._layout!r}")
        self._tick = int(rest[1]) * UNITS[rest[2]]
        epoch = datetime.datetime.fromisoformat(rest[3].replace("Z", "+00:00"))
        self._epoch = (epoch - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
        bits = {"worker": 0, "sequence": 0, "datacenter": 0, **{name: int(number) for name, number in fields}}
        self._shifts, shift = {"worker": 0, "sequence": 0, "datacenter": 0}, 0
        for name, number in reversed(fields):    # lane, timeline and tag are 0
            self._shifts[name] = shift
            shift += int(number)
        self._sequence_bits = bits["sequence"]
        self._sequence_mask = (1 << bits["sequence"]) - 1
        self._ticks = 1 << bits["time"]
        self._worker_ids = 1 << bits["worker"]
        if not 0 <= datacenter_id < 1 << bits["datacenter"]:
            raise ValueError(f"datacenter id {datacenter_id} does not fit the layout")
        self._datacenter = datacenter_id << self._shifts["datacenter"]
