// node-postgres with the parsers of node_json.js.
require('./node_json.js');
const { Client } = require('pg');

async function main() {
  const client = new Client();
  await client.connect();
  const { rows: [{ id }] } = await client.query("INSERT INTO orders (item) VALUES ('tea') RETURNING id");
  console.log(id);
  const { rows: [{ nested }] } = await client.query(
    'SELECT json_build_object($1::text, to_jsonb(orders), $2::text, 1.5) AS nested FROM orders WHERE id = $3',
    ['order', 'price', id]);
  console.log(nested.order.id);
  console.log(JSON.stringify(nested.order));
  if (nested.price !== 1.5) throw new Error('other numbers stay numbers');
  await client.end();
}
main();
