# SQLAlchemy: the server makes the key, and INSERT ... RETURNING returns it.
import json
from sqlalchemy import BigInteger, Column, ForeignKey, Text, create_engine, func, insert, select, text
from sqlalchemy.orm import Session, declarative_base, relationship

Base = declarative_base()
key = lambda: Column(BigInteger, primary_key=True, server_default=text("snowflake_id()"))
class Order(Base):
    __tablename__ = "orders"
    id, item = key(), Column(Text)

class Parcel(Base):
    __tablename__ = "parcels"
    id, order_id = key(), Column(ForeignKey("orders.id"))    # of the type of that key
    order = relationship(Order)

Base.metadata.create_all(engine := create_engine("postgresql+psycopg2://"))
with Session(engine) as session:
    session.add(Parcel(order=(order := Order(item="tea"))))
    session.commit()
    print(order.id, session.scalars(select(Parcel)).one().order.id, sep="\n")
    print(json.dumps(session.scalar(select(func.json_build_object("id", Order.id)))))    # a number
    session.execute(insert(Order).returning(Order.id), [{"item": "coffee"}] * 100)
    session.commit()
