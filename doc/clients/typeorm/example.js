// TypeORM.  Ids are strings.
const dataSource = require('./data-source.js');

async function main() {
  await dataSource.initialize();
  const customers = dataSource.getRepository('customers');
  const ada = await customers.save({ name: 'Ada' });
  const [tea] = await dataSource.getRepository('orders').save(
    ['tea', 'coffee', 'cocoa'].map((item) => ({ item, customer: ada })));    // one INSERT
  console.log(tea.id);
  const found = await customers.findOne({ where: { id: ada.id }, relations: { orders: true } });
  const nested = found.orders.find(({ item }) => item === 'tea');
  console.log(nested.id);
  console.log(JSON.stringify(nested));
  await dataSource.destroy();
}
main();
