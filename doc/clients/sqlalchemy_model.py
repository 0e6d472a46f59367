# SQLAlchemy: the server makes the key, and INSERT ... RETURNING returns it.
from sqlalchemy import BigInteger, Column, Text, create_engine, text
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()

class Order(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True, server_default=text("snowflake_id()"))
    item = Column(Text)

engine = create_engine("postgresql+psycopg2://")
Base.metadata.create_all(engine)
with Session(engine) as session:
    order = Order(item="tea")
    session.add(order)
    session.commit()
    print(order.id)
