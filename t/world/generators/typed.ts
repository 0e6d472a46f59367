// A use of clients/node that TypeScript has to accept.
import { SnowflakeIds, SnowflakeLease } from 'snowflake-ids';

async function main(): Promise<bigint[]> {
  const ids = new SnowflakeIds({ host: 'localhost' }, { size: 10 });
  const lease = await SnowflakeLease.acquire({}, 'orders-1',
    'time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z', { duration: 1000 });
  const made = [await ids.nextId(), await lease.nextId()];
  // @ts-expect-error
  new SnowflakeIds('postgres://localhost');
  await ids.close();
  return made;
}

main();
