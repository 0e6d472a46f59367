# psycopg, continuing its example: ids in pandas
import os, runpy
import pandas, psycopg

def check(name, condition):
    print("ok" if condition else "not ok", "-", name)

runpy.run_path(os.path.dirname(__file__) + "/../../../doc/clients/psycopg3.py")
with psycopg.connect() as db:
    orders, parcels = (pandas.DataFrame(db.execute(f"SELECT * FROM {table}").fetchall(), columns=columns)
                       for table, columns in (("orders", ["order_id", "item"]), ("parcels", ["id", "order_id"])))
joined = orders.merge(parcels, "left")
check("a pandas join that adds NULLs makes floats of ids", joined["id"].dtype == "float64")
joined = orders.merge(parcels.astype({"id": "Int64"}), "left")
check("but not of the type Int64", joined["id"].dtype == "Int64" and joined["id"][0] == parcels["id"][0])
