// The commands of t/world/generators.py, for clients/node.
const { writeFileSync } = require('fs');
const { createInterface } = require('readline');

// an application may have numbers for integers, which round ids
const { types } = require('pg');
types.setTypeParser(types.builtins.INT8, Number);
const { SnowflakeIds, SnowflakeLease } = require(process.env.CLIENTS);

let ids;
let offset = 0;

async function write(threads, number, file) {
  const all = new BigInt64Array(threads * number);
  const begin = performance.now();
  await Promise.all(Array.from({ length: threads }, async (_, thread) => {
    for (let i = 0; i < number; i++) all[thread * number + i] = await ids.nextId();
  }));
  console.log(`${Math.round(all.length / (performance.now() - begin) * 1000)} ids per second`);
  writeFileSync(file, Buffer.from(all.buffer).swap64());
}

async function run(line) {
  const words = line.split(' ');
  const number = (i) => Number(words[i]);
  switch (words[0]) {
    case 'blocks': ids = new SnowflakeIds({}, { size: number(1), maxAge: number(2) }); break;
    case 'lease':
      ids = await SnowflakeLease.acquire({}, words[1], words.slice(4).join(' '),
        { datacenterId: number(2), duration: number(3), now: () => Date.now() + offset });
      break;
    case 'next': for (let i = number(1); i > 0; i--) console.log(String(await ids.nextId())); break;
    case 'write': await write(number(1), number(2), words[3]); break;
    case 'clock': offset = number(1); break;
    case 'close': await ids.close(); break;
    default: throw new Error(`unknown command ${line}`);
  }
}

(async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      await run(line);
      console.log('ok');
    } catch (error) {
      console.log('error', error.message.replace(/\n/g, ' '));
    }
  }
  process.exit();
})();
