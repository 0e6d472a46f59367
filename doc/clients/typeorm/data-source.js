// TypeORM's schema: typeorm schema:sync -d data-source.js
const { DataSource, EntitySchema } = require('typeorm');

// Do not set generated: true, which makes the key a serial.
const key = () => ({ type: 'bigint', primary: true, default: () => 'snowflake_id()' });

const Customer = new EntitySchema({ name: 'customers',
  columns: { id: key(), name: { type: 'text' } },
  relations: { orders: { type: 'one-to-many', target: 'orders', inverseSide: 'customer' } } });
const Order = new EntitySchema({ name: 'orders',
  columns: { id: key(), item: { type: 'text' } },
  relations: { customer: { type: 'many-to-one', target: 'customers', inverseSide: 'orders' } } });

module.exports = new DataSource({ type: 'postgres', url: process.env.DATABASE_URL, entities: [Customer, Order] });
