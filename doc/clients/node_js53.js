// Node.js with pg and the layout js53, whose ids are exact as numbers.
const { Client, types } = require('pg');

types.setTypeParser(types.builtins.INT8, Number);

async function main() {
  const client = new Client();
  await client.connect();
  await client.query('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text)');
  const { rows: [{ id }] } = await client.query("INSERT INTO orders (item) VALUES ('tea') RETURNING id");
  console.log(JSON.stringify(id));
  if (!Number.isSafeInteger(id)) throw new Error('too large for a number');
  const found = await client.query('SELECT item FROM orders WHERE id = $1', [id]);
  if (found.rows[0].item !== 'tea') throw new Error('not found');
  await client.end();
}
main();
