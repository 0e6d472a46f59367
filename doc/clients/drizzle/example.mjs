// Drizzle with node-postgres.  Ids are BigInts.
import '../node_json.js';    // otherwise nested ids, which arrive as JSON, lose digits
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import * as schema from './schema.mjs';

const { customers, orders } = schema;
const db = drizzle(process.env.DATABASE_URL, { schema });
const [ada] = await db.insert(customers).values({ name: 'Ada' }).returning();
const [tea] = await db.insert(orders)
  .values(['tea', 'coffee', 'cocoa'].map((item) => ({ item, customerId: ada.id }))).returning();
console.log(String(tea.id));
const found = await db.query.customers.findFirst({ where: eq(customers.id, ada.id), with: { orders: true } });
const nested = found.orders.find(({ item }) => item === 'tea');
console.log(String(nested.id));
console.log(JSON.stringify(nested, (key, value) => (typeof value === 'bigint' ? String(value) : value)));
await db.$client.end();
