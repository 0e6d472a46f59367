# Interrupt next_id() by a signal handler that raises an exception, as Ctrl-C and the time limit
# of a task do, or makes an id itself, while another thread makes ids.  Prints the checks.
#
# usage: signals.py DIRECTORY URL
#
# DIRECTORY is clients/python.
import random
import signal
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
from snowflake_ids import SnowflakeIds, SnowflakeLease
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

SIGNALS = 2000
LAYOUT = "time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z"
connect = create_engine(sys.argv[2], poolclass=NullPool).raw_connection


class Interrupt(Exception):
    pass


def check(what, passed, details=""):
    print(f"{'ok' if passed else 'not ok'} - {what} {'' if passed else details}")


# Make ids while signals come, one after the other.  Returns them, those of the other thread, and
# whether that has ended.
def interrupt(generator, handler_raises):
    ids, others, handled = [], [], []

    def handle(number, frame):
        handled.append(number)
        if handler_raises:
            raise Interrupt
        ids.append(generator.next_id())

    def work():
        while len(handled) < SIGNALS:
            others.append(generator.next_id())
            time.sleep(0.0001)

    # a function of its own, as Python may leave the jump of a loop out of a try statement
    def make(number):
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.0005))
        while len(handled) == number:
            ids.append(generator.next_id())

    signal.signal(signal.SIGALRM, handle)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for number in range(SIGNALS):
        try:
            make(number)
        except Interrupt:
            pass
    thread.join(10)
    return ids, others, not thread.is_alive()


def after(generator):
    ids = []
    thread = threading.Thread(target=lambda: ids.extend(generator.next_id() for _ in range(1000)), daemon=True)
    thread.start()
    thread.join(10)
    return ids + [generator.next_id() for _ in range(1000)]


for name, generator in (("blocks", SnowflakeIds(connect, 100000)),
                        ("lease", SnowflakeLease(connect, "signals", LAYOUT))):
    for raises in True, False:
        ids, others, ended = interrupt(generator, raises)
        what = f"{name}: a handler that {'raises exceptions' if raises else 'makes ids'}"
        check(f"{what}: the other thread goes on", ended)
        rest = after(generator)
        together = ids + others + rest
        check(f"{what}: no id comes twice", len(rest) == 2000 and len({*together}) == len(together), len(together) - len({*together}))
    generator.close()
print("done")
