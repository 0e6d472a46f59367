// Make refills of snowflake_ids.js fail, and print the checks.
//
// usage: node refill.js DIRECTORY
const { Client, types } = require('pg');
const { SnowflakeIds } = require(process.argv[2]);
// an application may do this
types.setTypeParser(types.builtins.INT8, Number);

function check(name, condition) {
  console.log(`${condition ? 'ok' : 'not ok'} - ${name}`);
}

async function take(ids, count) {
  const taken = [];
  while (taken.length < count) taken.push(await ids.nextId());
  return taken;
}

async function main() {
  const client = new Client();
  await client.connect();
  const ids = new SnowflakeIds({}, { size: 1000 });
  const first = await take(ids, 1);
  await client.query('ALTER FUNCTION snowflake_reserve(integer) RENAME TO gone');
  const rest = await take(ids, 999);
  const error = await ids.nextId().catch((error) => error);
  check('callers see a failed refill when the block is used up', error.cause?.code === '42883');
  await client.query('ALTER FUNCTION gone(integer) RENAME TO snowflake_reserve');
  const more = await take(ids, 1);
  await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = $1', ['client backend']);
  while (ids.pool.totalCount > 0) await new Promise((go) => setTimeout(go, 10));
  more.push(...await take(ids, 999));
  check('later refills succeed', new Set([...first, ...rest, ...more]).size === 2000);

  // rounded to numbers, all single ids would be multiples of 16
  const single = await take(new SnowflakeIds({}, { size: 1 }), 100);
  check('no id is rounded to a number', single.some((id) => id % 16n !== 0n));
  await client.end();
  console.log('done');
}
main();
