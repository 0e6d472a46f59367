# Print rates of SQLAlchemy: measure, source of the ids, ids or rows per second.
#
# usage: blocks.py DIRECTORY ROUNDS
#
# DIRECTORY is clients/python.
import sys
import time

sys.path.insert(0, sys.argv[1])
from snowflake_ids import SnowflakeIds
from sqlalchemy import BigInteger, Column, Text, create_engine, insert, text
from sqlalchemy.orm import Session, declarative_base
from sqlalchemy.pool import NullPool

URL = "postgresql+psycopg2://"
ids = SnowflakeIds(create_engine(URL, poolclass=NullPool).raw_connection)
engine = create_engine(URL)
Base = declarative_base()


class FromServer(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True, server_default=text("snowflake_id()"))
    item = Column(Text)


# the schema makes SQLAlchemy accept a second class for the table
class FromBlocks(Base):
    __tablename__ = "orders"
    __table_args__ = {"schema": "public"}
    id = Column(BigInteger, primary_key=True, default=ids.next_id)
    item = Column(Text)


def measure(name, way, count, work):
    with Session(engine) as session:
        connection = session.connection()
        start = time.perf_counter()
        work(session, connection, count)
        session.commit()
        print(f"SQLAlchemy: {name}\t{way}\t{count / (time.perf_counter() - start)}")
        session.execute(text("TRUNCATE orders"))
        session.commit()


def repeat(call):
    def work(session, connection, count):
        for _ in range(count):
            call(connection)
    return work


def add_all(table):
    def work(session, connection, count):
        session.add_all(table(item="tea") for _ in range(count))
        session.flush()
    return work


select_id = text("SELECT snowflake_id()")
orders = FromServer.__table__
returning = insert(orders).returning(orders.c.id)
plain = insert(orders)


def insert_with(connection, id):
    connection.execute(plain, {"id": id, "item": "tea"})


for _ in range(int(sys.argv[2])):
    select, default = "`SELECT snowflake_id()`", "default and `RETURNING`"
    name = "an id"
    measure(name, select, 5000, repeat(lambda c: c.execute(select_id).scalar()))
    measure(name, "block", 200000, repeat(lambda c: ids.next_id()))
    name = "a row by `INSERT`"
    measure(name, select, 5000, repeat(lambda c: insert_with(c, c.execute(select_id).scalar())))
    measure(name, default, 5000, repeat(lambda c: c.execute(returning, {"item": "tea"}).scalar()))
    measure(name, "block", 5000, repeat(lambda c: insert_with(c, ids.next_id())))
    name = "a row of `add_all()`"
    measure(name, default, 5000, add_all(FromServer))
    measure(name, "block", 5000, add_all(FromBlocks))
