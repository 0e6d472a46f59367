# psycopg 3 returns an id as a Python int.
import psycopg

# no prepared statements, for pgbouncer in transaction mode
with psycopg.connect(prepare_threshold=None) as connection:
    (id,) = connection.execute(
        "INSERT INTO orders (item) VALUES (%s) RETURNING id", ("tea",)
    ).fetchone()
    print(id)
    (item,) = connection.execute("SELECT item FROM orders WHERE id = %s", (id,)).fetchone()
    assert item == "tea"
