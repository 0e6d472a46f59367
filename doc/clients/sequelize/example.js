// Sequelize.  Ids are strings.
const { sequelize, Customer, Order } = require('./models.js');

async function main() {
  await sequelize.sync();
  const ada = await Customer.create({ name: 'Ada' });
  const [tea] = await Order.bulkCreate(    // one INSERT
    ['tea', 'coffee', 'cocoa'].map((item) => ({ item, customerId: ada.id })), { returning: true });
  console.log(tea.id);
  const found = await Customer.findByPk(ada.id, { include: Order });
  const nested = found.orders.find(({ item }) => item === 'tea');
  console.log(nested.id);
  console.log(JSON.stringify(nested));
  await sequelize.close();
}
main();
