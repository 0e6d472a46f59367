# SQLAlchemy: ids that are known before the INSERT, from blocks of snowflake_reserve().
#
#	ids = Ids("postgresql+psycopg2://")
#	class Order(Base):
#	    id = Column(BigInteger, primary_key=True, default=ids.next)
#
# The row gets its id when it is inserted; Order(id=ids.next()) has it at once.
import os
import threading
from itertools import chain

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError


class Ids:
    def __init__(self, url, size=1000, **options):
        self.size = size
        # Use a separate connection: if all connections of the application were in
        # transactions that need an id, none would be left to fetch one.
        self.engine = create_engine(
            url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0, **options)
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    # A forked child must not hand out the ids of its parent or use its connection,
    # and the lock may be held by a thread that the child does not have.
    def forget(self):
        self.lock = threading.Lock()
        self.ids = iter(())
        self.engine.dispose(close=False)

    # Returns an int that nobody else gets.
    def next(self):
        with self.lock:
            id = next(self.ids, None)
            if id is None:
                self.ids = chain.from_iterable(
                    range(first, last + 1) for first, last in self.reserve())
                id = next(self.ids)
            return id

    def reserve(self):
        try:
            return self.query()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return self.query()    # the server has been restarted since the last block

    def query(self):
        with self.engine.connect() as connection:
            return connection.execute(
                text("SELECT first_id, last_id FROM snowflake_reserve(:size)"),
                {"size": self.size}).fetchall()
