// Print rates of ids in Node.js: measure, source of the ids, ids per second.
//
// usage: node blocks.js DIRECTORY ROUNDS
//
// DIRECTORY is clients/node.
const { Client } = require('pg');
const { SnowflakeIds } = require(process.argv[2]);
const rounds = Number(process.argv[3]);

async function measure(way, count, next) {
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i++) await next();
  console.log(`Node.js: an id\t${way}\t${count * 1e9 / Number(process.hrtime.bigint() - start)}`);
}

async function main() {
  const client = new Client();
  await client.connect();
  const ids = new SnowflakeIds();
  for (let round = 0; round < rounds; round++) {
    await measure('`SELECT snowflake_id()`', 5000, () => client.query('SELECT snowflake_id()'));
    await measure('block', 200000, () => ids.nextId());
  }
  await client.end();
}
main();
