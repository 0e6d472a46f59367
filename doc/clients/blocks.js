// Hand out ids without a round trip for each: blocks come from
// snowflake_reserve(), the next ones before the last is used up.
//
//	const ids = new Ids();    // or new Ids({ host: ... }, 10000)
//	const order = { id: await ids.next(), item: 'tea' };
//
// A worker thread or a process of a cluster makes its own.
const { Pool } = require('pg');

class Ids {
  constructor(config = {}, size = 1000) {
    // A connection of its own: if all of the application's are in transactions
    // that wait for an id, none is left to fetch one.
    this.pool = new Pool({ allowExitOnIdle: true, ...config, max: 1 });
    this.pool.on('error', () => {});    // an idle one broke: the next query opens another
    this.size = size;
    this.blocks = [];
    this.left = 0n;
    this.refill = null;
  }

  // A BigInt that nobody else gets.
  async next() {
    while (this.left === 0n) await this.fill();
    const block = this.blocks[0];
    const id = block.next++;
    if (block.next > block.last) this.blocks.shift();
    if (--this.left < this.size / 2) this.fill().catch(() => {});    // next() will see the error
    return id;
  }

  // Many callers share one request.  The ids come as text, as the application may
  // have made numbers of the driver's bigints, which would round them.
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
