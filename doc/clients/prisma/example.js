// Prisma's client with adapter-pg, after "prisma generate".  Ids are BigInts.
const { PrismaPg } = require('@prisma/adapter-pg');
const { PrismaClient } = require('./client');

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });

async function main() {
  const ada = await prisma.customer.create({ data: { name: 'Ada' } });
  const [tea] = await prisma.order.createManyAndReturn({    // one INSERT
    data: ['tea', 'coffee', 'cocoa'].map((item) => ({ item, customerId: ada.id })) });
  console.log(String(tea.id));
  const found = await prisma.customer.findUnique({ where: { id: ada.id }, include: { orders: true } });
  const nested = found.orders.find(({ item }) => item === 'tea');
  console.log(String(nested.id));
  console.log(JSON.stringify(nested, (key, value) => (typeof value === 'bigint' ? String(value) : value)));
  await prisma.$disconnect();
}
main();
