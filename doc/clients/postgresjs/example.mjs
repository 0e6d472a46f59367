// Postgres.js.  Ids are strings.
import postgres from 'postgres';

const sql = postgres(process.env.DATABASE_URL);
const [ada] = await sql`INSERT INTO customers (name) VALUES ('Ada') RETURNING id`;
const items = ['tea', 'coffee', 'cocoa'].map((item) => ({ item, customer_id: ada.id }));
const [tea] = await sql`INSERT INTO orders ${sql(items)} RETURNING id`;    // one INSERT
console.log(tea.id);
const [{ orders: [nested] }] = await sql`
  SELECT json_agg(json_build_object('id', id::text, 'item', item) ORDER BY id) AS orders
  FROM orders WHERE customer_id = ${ada.id}`;
console.log(nested.id);
console.log(JSON.stringify(nested));
await sql.end();
