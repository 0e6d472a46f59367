# peewee leaves the key out of INSERT, and reads it by RETURNING.
import json, os
from peewee import SQL, BigAutoField, ForeignKeyField, Model, PostgresqlDatabase, TextField
from playhouse.shortcuts import model_to_dict

db = PostgresqlDatabase(os.environ["PGDATABASE"])

class SnowflakeField(BigAutoField):
    field_type = "BIGINT"    # not a serial
    def __init__(self): super().__init__(constraints=[SQL("DEFAULT snowflake_id()")])

class Order(Model):
    id, item = SnowflakeField(), TextField()
    class Meta: database, table_name = db, "orders"

class Parcel(Model):
    id, order = SnowflakeField(), ForeignKeyField(Order)
    class Meta: database, table_name = db, "parcels"

db.create_tables([Order, Parcel])
order = Order.create(item="tea")
Parcel.create(order=order)
parcel = Parcel.select(Parcel, Order).join(Order).get()
print(order.id, parcel.order.id, json.dumps(model_to_dict(parcel)), sep="\n")    # numbers
Order.insert_many([{"item": "coffee"}] * 100).execute()
