# peewee, continuing its example: models that are made from the database
import os, runpy
from playhouse.reflection import generate_models

def check(name, condition):
    print("ok" if condition else "not ok", "-", name)

example = runpy.run_path(os.path.dirname(__file__) + "/../../../doc/clients/peewee_model.py")
db, Order = example["db"], example["Order"]
models = generate_models(db)
check("generate_models() lists nothing of the extension", sorted(models) == ["orders", "parcels"])
orders = [Order(item="juice") for _ in range(100)]
Order.bulk_create(orders)
check("bulk_create() gives each object its id", len({order.id for order in orders if order.id > 2 ** 62}) == 100)
order = models["orders"].create(item="milk")
check("its models get ids", order.id > 2 ** 62 and models["orders"].get_by_id(order.id).item == "milk")
