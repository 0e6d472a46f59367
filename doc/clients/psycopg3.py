# psycopg 3.  Ids are Python's integers.
import psycopg

# behind pgbouncer in transaction mode: no prepared statements
with psycopg.connect(prepare_threshold=None) as connection:
    (id,) = connection.execute(
        "INSERT INTO orders (item) VALUES (%s) RETURNING id", ("tea",)
    ).fetchone()
    print(id)
    (item,) = connection.execute("SELECT item FROM orders WHERE id = %s", (id,)).fetchone()
    assert item == "tea"
