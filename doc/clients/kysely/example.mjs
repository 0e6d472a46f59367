// Kysely with node-postgres.  Ids are strings.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { jsonArrayFrom } from 'kysely/helpers/postgres';
import pg from 'pg';

const db = new Kysely({ dialect: new PostgresDialect({
  pool: new pg.Pool({ connectionString: process.env.DATABASE_URL }) }) });
const key = (column) => column.primaryKey().defaultTo(sql`snowflake_id()`);
await db.schema.createTable('customers').addColumn('id', 'bigint', key).addColumn('name', 'text').execute();
await db.schema.createTable('orders').addColumn('id', 'bigint', key).addColumn('item', 'text')
  .addColumn('customer_id', 'bigint', (column) => column.references('customers.id')).execute();
const ada = await db.insertInto('customers').values({ name: 'Ada' }).returning('id').executeTakeFirstOrThrow();
const [tea] = await db.insertInto('orders').returning('id')
  .values(['tea', 'coffee', 'cocoa'].map((item) => ({ item, customer_id: ada.id }))).execute();
console.log(tea.id);
const found = await db.selectFrom('customers').where('id', '=', ada.id).select((eb) => jsonArrayFrom(
  eb.selectFrom('orders').whereRef('customer_id', '=', 'customers.id').orderBy('orders.id')
    .select(({ cast }) => [cast('orders.id', 'text').as('id'), 'item'])    // a number would lose digits
).as('orders')).executeTakeFirstOrThrow();
console.log(found.orders[0].id);
console.log(JSON.stringify(found.orders[0]));
await db.destroy();
