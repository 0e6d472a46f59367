// Hand out ids to 20 concurrent callers in each of several worker threads, of this
// process and of those of a cluster.  Each thread writes its ids to a file of its own.
//
// usage: node hand_out.js DIRECTORY FILE THREADS CHILDREN COUNT
//
// DIRECTORY is clients/node.  Waits while the server is down.
const cluster = require('cluster');
const fs = require('fs');
const { isMainThread, threadId, Worker } = require('worker_threads');

const [directory, file, threads, children, count] = process.argv.slice(2);
const { SnowflakeIds } = require(directory);

async function handOut() {
  const ids = new SnowflakeIds();
  const output = fs.openSync(`${file}.${process.pid}.${threadId}`, 'w');
  const next = async () => {
    for (let tries = 0; tries < 600; tries++) {
      try {
        return await ids.nextId();
      } catch {
        await new Promise((go) => setTimeout(go, 100));
      }
    }
    return ids.nextId();
  };
  await Promise.all(Array.from({ length: 20 }, async () => {
    // an id that was written counts, even if the process is killed then
    for (let i = 0; i < count / 20; i++) fs.writeSync(output, `${await next()}\n`);
  }));
}

if (isMainThread) {
  for (let i = 1; i < threads; i++) new Worker(__filename, { argv: process.argv.slice(2) });
  if (children > 0) cluster.setupPrimary({ exec: __filename, args: [directory, file, threads, 0, count] });
  for (let i = 0; i < children; i++) cluster.fork();
}
// the channel to the primary would keep a process of the cluster alive
handOut().finally(() => cluster.worker?.disconnect());
