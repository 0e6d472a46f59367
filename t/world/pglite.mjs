// Make ids in PGlite, print them, and kill the process before they are committed, with a clock that is set to a
// given time just before.  The first run also installs the functions.
//
// usage: node pglite.mjs START DIRECTORY [SCRIPT DURABLE]

import { readFileSync, writeSync } from 'node:fs';
import { PGlite } from '@electric-sql/pglite';

const [start, directory, script, durable] = process.argv.slice(2);
const now = Date.now;
let offset = 0;
Date.now = () => now() + offset;
const db = new PGlite(directory);
if (script) {
  await db.exec(readFileSync(script, 'utf8'));
  await db.query(`SELECT snowflake_configure('snowflake lane:0 sequence:4', 1, max_ahead => '1 hour', durable => ${durable})`);
  await db.exec('CHECKPOINT');
}
await db.exec('BEGIN');
offset = Number(start) - now();
const { rows } = await db.query('SELECT snowflake_nextval()::text AS id FROM generate_series(1, 10000)');
writeSync(1, rows.map(({ id }) => `${id}\n`).join(''));
process.kill(process.pid, 'SIGKILL');
