// MikroORM's entities: mikro-orm schema:update
import { defineConfig, defineEntity, p } from '@mikro-orm/postgresql';

// Without autoincrement(false), the default is ignored and the key is a serial.
const key = () => p.bigint('string').primary().autoincrement(false).defaultRaw('snowflake_id()');

export const Customer = defineEntity({ name: 'Customer', tableName: 'customers', properties: {
  id: key(), name: p.text(), orders: () => p.oneToMany(Order).mappedBy('customer') } });
export const Order = defineEntity({ name: 'Order', tableName: 'orders', properties: {
  id: key(), item: p.text(), customer: () => p.manyToOne(Customer) } });

export default defineConfig({ clientUrl: process.env.DATABASE_URL, entities: [Customer, Order],
  schemaGenerator: { ignoreSchema: ['snowflake_internal'] } });    // otherwise updates try to drop it
