// Node.js with pg.  A bigint is returned as a string, because a number would lose digits.
const { Client } = require('pg');

async function main() {
  const client = new Client();
  await client.connect();
  await client.query(`
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text);
    CREATE TABLE parcels (id bigint PRIMARY KEY DEFAULT snowflake_id(), order_id bigint REFERENCES orders)`);
  const { rows: [tea] } = await client.query(    // one INSERT
    'INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id', [['tea', 'coffee', 'cocoa']]);
  console.log(tea.id);
  await client.query('INSERT INTO parcels (order_id) VALUES ($1)', [tea.id]);
  const { rows: [nested] } = await client.query(
    'SELECT orders.id, item FROM parcels JOIN orders ON orders.id = order_id');
  console.log(nested.id);
  console.log(JSON.stringify(nested));
  await client.end();
}
main();
