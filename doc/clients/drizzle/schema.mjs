// Drizzle's schema: drizzle-kit push, or drizzle-kit generate and migrate.
import { relations, sql } from 'drizzle-orm';
import { bigint, pgTable, text } from 'drizzle-orm/pg-core';

const id = () => bigint({ mode: 'bigint' }).primaryKey().default(sql`snowflake_id()`);

export const customers = pgTable('customers', { id: id(), name: text().notNull() });
export const orders = pgTable('orders', {
  id: id(),
  item: text().notNull(),
  customerId: bigint('customer_id', { mode: 'bigint' }).references(() => customers.id),
});
export const customerRelations = relations(customers, ({ many }) => ({ orders: many(orders) }));
export const orderRelations = relations(orders, ({ one }) => ({
  customer: one(customers, { fields: [orders.customerId], references: [customers.id] }),
}));
