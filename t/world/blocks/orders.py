# Insert orders with SQLAlchemy and ids from blocks, and print the checks.
#
# usage: orders.py DIRECTORY URL
#
# DIRECTORY is clients/python.
import sys

sys.path.insert(0, sys.argv[1])
from snowflake_ids import SnowflakeIds, SnowflakeLease
from sqlalchemy import BigInteger, Column, Text, create_engine, select, text
from sqlalchemy.orm import Session, declarative_base
from sqlalchemy.pool import NullPool

Base = declarative_base()
connect = create_engine(sys.argv[2], poolclass=NullPool).raw_connection
ids = SnowflakeIds(connect)


class Order(Base):
    __tablename__ = "block_orders"
    id = Column(BigInteger, primary_key=True, default=ids.next_id, server_default=text("snowflake_id()"))
    item = Column(Text)


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
    check("2500 ids are known before the flush, none is that of a rolled back row",
          len(known) == 2500 and lost not in known and 0 not in known)
    session.add_all(orders + [Order(item="default") for _ in range(2500)])
    session.commit()
    made = dict(session.execute(select(Order.id, Order.item)).all())
    check("all rows are in the table, with the known ids",
          len(made) == 5000 and known == {id for id, item in made.items() if item == "known"})
with engine.connect() as connection:
    connection.execute(text("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""))
check("a connection that broke since the last block is replaced",
      len({ids.next_id() for _ in range(1001)}) == 1001)
lease = SnowflakeLease(connect, "orders", "time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z")
with engine.connect() as connection:
    held = connection.execute(text("SELECT count(*) FROM snowflake_registry.leases WHERE state = 'held'")).scalar()
check("a lease is committed, and its ids differ", held == 1 and len({lease.next_id() for _ in range(10000)}) == 10000)
lease.close()
print("done")
