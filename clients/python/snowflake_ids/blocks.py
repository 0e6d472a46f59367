"""Ids from blocks of snowflake_reserve(), without a round trip for each."""
import _thread
import os
import queue
import time
from collections import deque
from operator import length_hint
from typing import Any, Callable, Deque, List, Optional

ANSWER_TIMEOUT = 10    # s
MAX_SIZE = 1_000_000    # what one call of snowflake_reserve() returns at most


class SnowflakeIds:
    """Any number of threads may share it, and forked children may use it.

    connect: returns a new connection, by any DB-API driver with the parameter style %s
    size: ids in a block, 1 to 1,000,000
    max_age: how old the time of an id may be, in seconds
    """

    def __init__(self, connect: Callable[[], Any], size: int = 1000, max_age: float = 60) -> None:
        if not callable(connect):
            raise TypeError("connect must be a function that returns a connection")
        if type(size) is not int or not 1 <= size <= MAX_SIZE:
            raise ValueError(f"size must be a whole number from 1 to {MAX_SIZE}, not {size!r}")
        if not max_age > 0:
            raise ValueError(f"max_age must be greater than 0, not {max_age!r}")
        self._settings = connect, size, max_age
        self._closed = False
        self._blocks: Optional[_Blocks] = None
        os.register_at_fork(after_in_child=self._forget)

    def next_id(self) -> int:
        """Return an id that nobody else gets."""
        blocks = self._blocks
        # a server that forks in C, such as uWSGI, calls no hooks of Python
        if blocks is None or blocks.process != os.getpid():
            blocks = self._blocks = _Blocks(*self._settings)
        while not self._closed:
            snowflake_id = blocks.take()
            if snowflake_id is not None:
                return snowflake_id
            blocks.wait()
        raise RuntimeError("these snowflake ids are closed")

    def close(self) -> None:
        """Throw away the ids that are left.  Later calls of next_id() fail."""
        self._closed = True
        self._forget()

    def _forget(self) -> None:
        self._blocks = None


class _Block:
    def __init__(self, first: int, last: int, since: float) -> None:
        self.ids = iter(range(first, last + 1))
        self.since = since    # its time is not before this
        self.after = 0    # ids of later blocks of the same answer
        self.asked = False    # for the next answer


class _Blocks:
    """The blocks of one process, as a forked child must not hand out the ids of its parent.

    Those who take ids hold no lock, which an exception of a signal handler could leave locked: an
    id is taken from an iterator, and the calls of deque and SimpleQueue are atomic, too.  Fetching
    is left to threads, because signal handlers run in the main thread only.  They end when they
    have answered: a server that forks in C breaks what Python knows of threads that wait.
    """

    def __init__(self, connect: Callable[[], Any], size: int, max_age: float) -> None:
        self.connect, self.size, self.max_age = connect, size, max_age
        self.process = os.getpid()
        self.blocks: Deque[_Block] = deque()
        self.fetching = _Fetching()

    # Take an id, or return None.
    def take(self) -> Optional[int]:
        while True:
            try:
                block = self.blocks[0]
            except IndexError:
                return None
            if time.monotonic() - block.since < self.max_age:
                for snowflake_id in block.ids:
                    if not block.asked and length_hint(block.ids) + block.after <= self.size // 2:
                        block.asked = True
                        self.ask(self.fetching)
                    return snowflake_id
            try:
                self.blocks.remove(block)
            except ValueError:
                pass    # another thread has done it

    # Wait until there are blocks.
    def wait(self) -> None:
        fetching = self.fetching
        try:
            failure = self.ask(fetching).get(timeout=ANSWER_TIMEOUT)
        except queue.Empty:
            # a thread that gets no answer does not hold up the next one
            if self.fetching is fetching:
                self.fetching = _Fetching()
            raise RuntimeError("no snowflake ids: the database does not answer") from None
        if failure:
            raise RuntimeError(f"no snowflake ids: the database has reserved none: {failure}") from failure

    # Have a thread fetch blocks.  Returns where it puts the reason if it has none, or else None.
    def ask(self, fetching: "_Fetching") -> "queue.SimpleQueue[Optional[Exception]]":
        answer: "queue.SimpleQueue[Optional[Exception]]" = queue.SimpleQueue()
        fetching.answers.append(answer)
        # not by threading, which uses locks
        _thread.start_new_thread(self.fetch, (fetching,))
        return answer

    # Fetch blocks for all who have asked, unless another thread has just done so.
    def fetch(self, fetching: "_Fetching") -> None:
        with fetching.lock:
            failure, answers = None, []
            while fetching.answers:
                answers.append(fetching.answers.popleft())
            if answers and sum(length_hint(block.ids) for block in list(self.blocks)) <= self.size // 2:
                try:
                    self.blocks.extend(_reserve(self.connect, self.size, self.max_age))
                except Exception as error:
                    failure = error
        for answer in answers:
            answer.put(failure)


class _Fetching:
    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()    # of the threads that fetch, one at a time
        self.answers: "Deque[queue.SimpleQueue[Optional[Exception]]]" = deque()    # that are waited for


def _reserve(connect: Callable[[], Any], size: int, max_age: float) -> List[_Block]:
    since = time.monotonic()
    connection = connect()
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT first_id, last_id FROM snowflake_reserve(%s)", [size])
        rows = cursor.fetchall()
    finally:
        connection.close()
    took = time.monotonic() - since
    if took >= max_age:
        raise RuntimeError(f"a block took {took:.3f} s to arrive, and max_age is {max_age} s")
    try:
        blocks = [_Block(first, last, since) for first, last in rows]
    except (TypeError, ValueError):
        raise TypeError(f"rows must be pairs of integers, not {rows[0]!r}") from None
    after = 0
    for block in reversed(blocks):
        block.after = after
        after += length_hint(block.ids)
    if not after:
        raise RuntimeError("snowflake_reserve() has returned no ids")
    return blocks
