// Hand out ids without a round trip for each: blocks come from
// snowflake_reserve(), the next ones before the last is used up.
class Ids {
  constructor(client, size = 1000) {
    this.client = client;
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

  // Many callers share one request.
  fill() {
    this.refill ??= this.client
      .query('SELECT first_id, last_id FROM snowflake_reserve($1)', [this.size])
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
