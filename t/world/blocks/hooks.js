// Use ids from blocks in hooks of ORMs, and print the checks.
//
// usage: node hooks.js DIRECTORY LOG
//
// DIRECTORY is clients/node, and LOG is the server's, with all INSERTs.
const fs = require('fs');
const { DataTypes, Sequelize } = require('sequelize');
const { BeforeInsert, Column, DataSource, Entity, PrimaryColumn } = require('typeorm');
const { SnowflakeIds } = require(process.argv[2]);

const { PGHOST: host, PGUSER: username, PGDATABASE: database } = process.env;
const ids = new SnowflakeIds();

async function check(name, find, insert) {
  const inserts = () => fs.readFileSync(process.argv[3], 'utf8').split('INSERT INTO "orders"').length;
  const before = inserts();
  const known = new Set((await insert()).map((order) => String(order.id)));
  const statements = inserts() - before;
  const found = (await find()).filter((order) => known.has(String(order.id)));
  const good = known.size === 500 && found.length === 500 && statements === 1;
  console.log(`${good ? 'ok' : 'not ok'} - ${name}: 500 ids from a hook, rows inserted by ${statements} statement`);
}

async function checkSequelize() {
  const sequelize = new Sequelize({ dialect: 'postgres', host, username, database, logging: false });
  const Order = sequelize.define('Order', {
    id: { type: DataTypes.BIGINT, primaryKey: true },
    item: DataTypes.TEXT,
  }, { tableName: 'orders', timestamps: false });
  Order.beforeBulkCreate(async (orders) => { for (const order of orders) order.id = await ids.nextId(); });
  await Order.sync({ force: true });
  await check('Sequelize', () => Order.findAll(),
    () => Order.bulkCreate(Array.from({ length: 500 }, () => ({ item: 'tea' }))));
  // a single row uses another hook
  Order.beforeValidate(async (order) => { order.id ??= await ids.nextId(); });
  const order = await Order.create({ item: 'tea' });
  console.log(`${await Order.findByPk(order.id) ? 'ok' : 'not ok'} - Sequelize: create()`);
  await sequelize.close();
}

async function checkTypeOrm() {
  class Order {
    async takeId() { this.id = String(await ids.nextId()); }
  }
  // what a compiler makes of decorators
  PrimaryColumn({ type: 'bigint' })(Order.prototype, 'id');
  Column({ type: 'text' })(Order.prototype, 'item');
  BeforeInsert()(Order.prototype, 'takeId');
  Entity('orders')(Order);
  const source = new DataSource({ type: 'postgres', host, username, database, entities: [Order] });
  await source.initialize();
  await check('TypeORM', () => source.manager.find(Order),
    () => source.manager.save(Array.from({ length: 500 }, () => source.manager.create(Order, { item: 'tea' }))));
  // the column has no default
  for (const method of ['save', 'insert']) {
    const error = await source.manager[method](Order, { item: 'tea' }).catch((error) => error);
    console.log(`${error.code === '23502' ? 'ok' : 'not ok'} - TypeORM: ${method}() of a plain object calls no hook`);
  }
  await source.destroy();
}

checkSequelize().then(checkTypeOrm).then(() => console.log('done'));
