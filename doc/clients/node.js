// Node.js with pg.  A bigint is returned as a string, because a number would lose digits.
const { Client } = require('pg');

async function main() {
  const client = new Client();
  await client.connect();
  const inserted = await client.query("INSERT INTO orders (item) VALUES ('tea') RETURNING id");
  const id = BigInt(inserted.rows[0].id);
  console.log(String(id));
  const found = await client.query('SELECT item FROM orders WHERE id = $1', [id]);
  if (found.rows[0].item !== 'tea') throw new Error('not found');
  await client.end();
}
main();
