# SQLModel with keys that the server makes.
from sqlalchemy import BigInteger, Column, insert, text
from sqlmodel import Field, Relationship, Session, SQLModel, create_engine

def key():
    return Field(default=None, sa_column=Column(BigInteger, primary_key=True, server_default=text("snowflake_id()")))

class Order(SQLModel, table=True):
    __tablename__ = "orders"
    id: int | None = key()
    item: str

class Parcel(SQLModel, table=True):
    __tablename__ = "parcels"
    id: int | None = key()
    order_id: int = Field(foreign_key="orders.id", sa_type=BigInteger)    # int alone would be too narrow
    order: Order = Relationship()

SQLModel.metadata.create_all(engine := create_engine("postgresql+psycopg://"))
with Session(engine) as session, session.begin():
    session.add(parcel := Parcel(order=Order(item="tea")))
    session.flush()
    print(parcel.order.id, parcel.order_id, parcel.order.model_dump_json(), sep="\n")    # a number
    session.execute(insert(Order).returning(Order.id), [{"item": "coffee"}] * 100)    # add_all() would send 100 statements
