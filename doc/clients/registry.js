// A service that makes its own ids, with a worker id leased from snowflake_registry.
// The layout is time:41 worker:10 sequence:12, with its epoch in 2026.
const { randomUUID } = require('crypto');

const EPOCH = Date.UTC(2026, 0, 1);
const LAYOUT = 'time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z';
const DURATION = 30000;    // ms

class Generator {
  constructor(client, name) {
    this.client = client;
    this.name = name;
    this.instance = randomUUID();    // a new one at each start
    this.lease = null;
    this.stopped = false;
    this.last = 0;
    this.sequence = 0;
  }

  // Call this every third of the lease, and repeat it until it succeeds.
  async keep() {
    const lease = this.lease;
    if (lease) {
      const { rows: [{ ends }] } = await this.client.query(
        'SELECT snowflake_registry.renew($1::bigint, $2::uuid, $3::timestamptz, $4::timestamptz, $5::interval) AS ends',
        [lease.workerId, this.instance, lease.ends, new Date(), `${DURATION} ms`]);
      if (ends) lease.ends = ends;
      else this.lease = null;
    }
    if (!this.lease && !this.stopped) {
      const { rows: [row] } = await this.client.query(
        'SELECT * FROM snowflake_registry.acquire($1::text, $2::uuid, $3::text, $4::bigint, $5::timestamptz, $6::interval)',
        [this.name, this.instance, LAYOUT, 1024, new Date(), `${DURATION} ms`]);
      if (!row) throw new Error('no worker id is free');
      // a Date drops microseconds: only the next millisecond is sure to be in the lease
      this.lease = { workerId: row.worker_id, starts: Number(row.starts) + 1, ends: row.ends };
      // stop() was called meanwhile, and had nothing to give back yet
      if (this.stopped) await this.stop();
    }
  }

  // Returns a BigInt.  Its time is that of the clock or that of the last id, whichever
  // is later, and must be within the lease.
  next() {
    let time = Math.max(Date.now(), this.last);
    if (time === this.last && ++this.sequence > 4095) time++;
    if (!this.lease || time < this.lease.starts || time >= Number(this.lease.ends)) throw new Error('no lease');
    if (time > this.last) this.sequence = 0;
    this.last = time;
    return BigInt(time - EPOCH) << 22n | BigInt(this.lease.workerId) << 12n | BigInt(this.sequence);
  }

  // Gives the lease back.  Later calls of next() fail.
  async stop() {
    const lease = this.lease;
    this.stopped = true;
    this.lease = null;
    if (lease) {
      await this.client.query('SELECT snowflake_registry.release($1::bigint, $2::uuid, $3::timestamptz)',
        [lease.workerId, this.instance, new Date(Math.max(this.last + 1, lease.starts))]);
    }
  }
}

module.exports = Generator;
