// A service that makes its own ids, with a worker id that it leases from
// snowflake_registry.  The layout: time:41 worker:10 sequence:12, since 2026.
const { randomUUID } = require('crypto');

const EPOCH = Date.UTC(2026, 0, 1);
const LAYOUT = 'time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z';
const DURATION = 30000;    // ms

class Generator {
  constructor(client, name) {
    this.client = client;
    this.name = name;
    this.instance = randomUUID();    // not that of an earlier life
    this.lease = null;
    this.last = 0;
    this.sequence = 0;
  }

  // To be called every third of the lease, and until it succeeds.
  async keep() {
    if (this.lease) {
      const { rows: [{ ends }] } = await this.client.query(
        'SELECT snowflake_registry.renew($1::bigint, $2::uuid, $3::timestamptz, $4::timestamptz, $5::interval) AS ends',
        [this.lease.workerId, this.instance, this.lease.ends, new Date(), `${DURATION} ms`]);
      if (ends) this.lease.ends = ends;
      else this.lease = null;
    }
    if (!this.lease) {
      const { rows: [row] } = await this.client.query(
        'SELECT * FROM snowflake_registry.acquire($1::text, $2::uuid, $3::text, $4::bigint, $5::timestamptz, $6::interval)',
        [this.name, this.instance, LAYOUT, 1024, new Date(), `${DURATION} ms`]);
      if (!row) throw new Error('no worker id is free');
      // a whole millisecond that is not before the start
      this.lease = { workerId: row.worker_id, starts: Number(row.starts) + 1, ends: row.ends };
    }
  }

  // A BigInt.  The time is the latest of the clock's and the last id's; what
  // counts is that it is within the lease.
  next() {
    let time = Math.max(Date.now(), this.last);
    if (time === this.last && ++this.sequence > 4095) time++;
    if (!this.lease || time < this.lease.starts || time >= Number(this.lease.ends)) throw new Error('no lease');
    if (time > this.last) this.sequence = 0;
    this.last = time;
    return BigInt(time - EPOCH) << 22n | BigInt(this.lease.workerId) << 12n | BigInt(this.sequence);
  }

  // No id is made after that.
  async stop() {
    const lease = this.lease;
    this.lease = null;
    if (lease) {
      await this.client.query('SELECT snowflake_registry.release($1::bigint, $2::uuid, $3::timestamptz)',
        [lease.workerId, this.instance, new Date(Math.max(this.last + 1, lease.starts))]);
    }
  }
}

module.exports = Generator;
