# asyncpg returns an id as a Python int.
import asyncio, json
import asyncpg

async def main():
    db = await asyncpg.connect()
    for table in "orders (%s, item text)", "parcels (%s, order_id bigint REFERENCES orders)":
        await db.execute("CREATE TABLE " + table % "id bigint PRIMARY KEY DEFAULT snowflake_id()")
    id = await db.fetchval("INSERT INTO orders (item) VALUES ($1) RETURNING id", "tea")
    await db.execute("INSERT INTO parcels (order_id) VALUES ($1)", id)
    row = await db.fetchrow("SELECT orders.id FROM parcels JOIN orders ON orders.id = order_id")
    print(id, row["id"], json.dumps(dict(row)), sep="\n")    # a number
    await db.copy_records_to_table("orders", columns=["item"], records=[("coffee",)] * 100)
    await db.close()

asyncio.run(main())
