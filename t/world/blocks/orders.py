# Insert orders with SQLAlchemy and ids from blocks, and print the checks.
#
# usage: orders.py DIRECTORY URL LOG
#
# DIRECTORY is clients/python, and LOG is the server's, with all statements.
import sys
import time

sys.path.insert(0, sys.argv[1])
import sqlalchemy
from sqlalchemy import BigInteger, Column, Text, create_engine, func, select, text
from snowflake_ids import SnowflakeIds, SnowflakeLease
from sqlalchemy.orm import Session, declarative_base
from sqlalchemy.pool import NullPool

Base = declarative_base()
ids = SnowflakeIds(create_engine(sys.argv[2], poolclass=NullPool).raw_connection)


class Order(Base):
    __tablename__ = "block_orders"
    id = Column(BigInteger, primary_key=True, default=ids.next_id, server_default=text("snowflake_id()"))
    item = Column(Text)


def count(text):
    with open(sys.argv[3]) as log:
        return sum(text in line for line in log)


def count_inserts():
    return count("INSERT INTO block_orders")


calls_before = count("FROM snowflake_reserve(")


# Blocks are fetched in the background.
def calls_become(number):
    for _ in range(100):
        if count("FROM snowflake_reserve(") - calls_before == number:
            return True
        time.sleep(0.05)
    return False


def check(name, condition):
    print(("ok - " if condition else "not ok - ") + name)


# The application has only one connection.
engine = create_engine(sys.argv[2], pool_size=1, max_overflow=0, pool_timeout=5)
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.execute(text("SELECT 1"))
    order = Order(item="tea")
    session.add(order)
    session.flush()
    check("the id is known after the flush, though no other connection is free",
          session.get(Order, order.id) is order)
    lost = order.id
    session.rollback()
with Session(engine) as session:
    orders = [Order(id=ids.next_id(), item="known") for _ in range(2500)]
    known = {order.id for order in orders}
    # a block is fetched when half of the one before has been used
    check("2501 ids take 4 blocks", calls_become(4))
    check("2500 ids are known before the flush, none is that of a rolled back row",
          len(known) == 2500 and lost not in known and 0 not in known)
    session.add_all(orders)
    before = count_inserts()
    session.commit()
    # psycopg 3 sends them one by one, without waiting for each
    statements = 3 if engine.driver == "psycopg2" else 2500
    check(f"these rows are inserted by {statements} statements", count_inserts() - before == statements)
with Session(engine) as session:
    session.add_all(Order(item="default") for _ in range(2500))
    before = count_inserts()
    session.commit()
    check("2500 rows without an id are inserted by 3 statements", count_inserts() - before == 3)
    check("their ids take 2 blocks more", calls_become(6))
with Session(engine) as session:
    rows = session.execute(select(Order.item, func.count()).group_by(Order.item)).all()
    check("all rows are in the table", sorted(map(tuple, rows)) == [("default", 2500), ("known", 2500)])
    check("with the known ids", known == set(
        session.execute(select(Order.id).where(Order.item == "known")).scalars()))
if hasattr(sqlalchemy, "insert_sentinel"):
    class Plain(Base):
        __tablename__ = "block_orders_plain"
        id = Column(BigInteger, primary_key=True, server_default=text("snowflake_id()"))
        item = Column(Text)

    class Sentinel(Base):
        __tablename__ = "block_orders_sentinel"
        id = Column(BigInteger, primary_key=True, server_default=text("snowflake_id()"))
        item = Column(Text)
        sentinel = sqlalchemy.insert_sentinel()

    Base.metadata.create_all(engine)
    for table, statements in ((Plain, 2500), (Sentinel, 3)):
        with Session(engine) as session:
            session.add_all(table(item="tea") for _ in range(2500))
            before = count_inserts()
            session.commit()
            check(f"2500 rows with ids of the server, {table.__name__}: {statements} statements",
                  count_inserts() - before == statements)
with engine.connect() as connection:
    connection.execute(text("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""))
check("a connection that broke since the last block is replaced",
      len({ids.next_id() for _ in range(1001)}) == 1001)
lease = SnowflakeLease(create_engine(sys.argv[2], poolclass=NullPool).raw_connection, "orders",
                       "time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z")
with engine.connect() as connection:
    held = connection.execute(text("SELECT count(*) FROM snowflake_registry.leases WHERE state = 'held'")).scalar()
check("a lease is committed, and its ids differ", held == 1 and len({lease.next_id() for _ in range(10000)}) == 10000)
lease.close()
print("done")
