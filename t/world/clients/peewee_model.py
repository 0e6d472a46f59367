# peewee, continuing its example: models that are made from the database
import os, runpy
from playhouse.reflection import generate_models

def check(name, condition):
    print("ok" if condition else "not ok", "-", name)

db = runpy.run_path(os.path.dirname(__file__) + "/../../../doc/clients/peewee_model.py")["db"]
models = generate_models(db)
check("generate_models() lists nothing of the extension", sorted(models) == ["orders", "parcels"])
order = models["orders"].create(item="milk")
check("its models get ids", order.id > 2 ** 62 and models["orders"].get_by_id(order.id).item == "milk")
