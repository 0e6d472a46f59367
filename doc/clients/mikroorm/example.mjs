// MikroORM.  Ids are strings.
import { MikroORM } from '@mikro-orm/postgresql';
import config, { Customer, Order } from './mikro-orm.config.mjs';

const orm = await MikroORM.init(config);
const em = orm.em.fork();
const ada = em.create(Customer, { name: 'Ada' });
const [tea] = ['tea', 'coffee', 'cocoa'].map((item) => em.create(Order, { item, customer: ada }));
await em.flush();    // one INSERT per table
console.log(tea.id);
em.clear();
const found = await em.findOneOrFail(Customer, ada.id, { populate: ['orders'] });
const nested = found.orders.getItems().find(({ item }) => item === 'tea');
console.log(nested.id);
console.log(JSON.stringify(nested));
await orm.close();
