// Hand out ids from blocks of snowflake_reserve(), without a round trip for each id.
// The next block is fetched before the last one is used up.
//
//	const ids = new Ids();    // or new Ids({ host: ... }, 10000)
//	const order = { id: await ids.next(), item: 'tea' };
//
// Each worker thread, and each process of a cluster, makes its own Ids.
const { Pool } = require('pg');

class Ids {
  constructor(config = {}, size = 1000) {
    // Use a separate connection: if all connections of the application were in
    // transactions that wait for an id, none would be left to fetch one.
    this.pool = new Pool({ allowExitOnIdle: true, ...config, max: 1 });
    this.pool.on('error', () => {});    // an idle connection broke: the next query opens another
    this.size = size;
    this.blocks = [];
    this.left = 0n;
    this.refill = null;
  }

  // Returns a BigInt that nobody else gets.
  async next() {
    while (this.left === 0n) await this.fill();
    const block = this.blocks[0];
    const id = block.next++;
    if (block.next > block.last) this.blocks.shift();
    if (--this.left < this.size / 2) this.fill().catch(() => {});    // next() will see the error
    return id;
  }

  // All callers share one request.  Ask for text: the application may have told the
  // driver to return bigints as numbers, which would round them.
  fill() {
    this.refill ??= this.pool
      .query('SELECT first_id::text, last_id::text FROM snowflake_reserve($1)', [this.size])
      .then(({ rows }) => {
        for (const row of rows) {
          const block = { next: BigInt(row.first_id), last: BigInt(row.last_id) };
          this.blocks.push(block);
          this.left += block.last - block.next + 1n;
        }
      })
      .finally(() => { this.refill = null; });
    return this.refill;
  }
}

module.exports = Ids;
