# psycopg 3 returns an id as a Python int, also in JSON.
import json
import psycopg

# no prepared statements, for pgbouncer in transaction mode
with psycopg.connect(prepare_threshold=None) as db:
    for table in "orders (%s, item text)", "parcels (%s, order_id bigint REFERENCES orders)":
        db.execute("CREATE TABLE " + table % "id bigint PRIMARY KEY DEFAULT snowflake_id()")
    (id,) = db.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", ["tea"]).fetchone()
    db.execute("INSERT INTO parcels (order_id) VALUES (%s)", [id])
    (nested, order) = db.execute(
        "SELECT orders.id, to_jsonb(orders) FROM parcels JOIN orders ON orders.id = order_id"
    ).fetchone()
    print(id, nested, json.dumps(order), sep="\n")
    db.execute("INSERT INTO orders (item) SELECT unnest(%s::text[])", [["coffee"] * 100])
