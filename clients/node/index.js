// Ids from blocks of snowflake_reserve(), and ids that a process makes by itself, with a worker id
// leased from snowflake_registry.  README.md has their contract.
'use strict';

const { randomUUID } = require('crypto');
const { Pool } = require('pg');

const ANSWER_TIMEOUT = 10000;    // ms
const MAX_SIZE = 1000000;    // what one call of snowflake_reserve() returns at most

// Use a separate connection: if all connections of the application were in transactions
// that wait for an id, none would be left to fetch one.
function connect(config, timeout = ANSWER_TIMEOUT) {
  // to spread a string or a pool would connect to another database
  if (typeof config !== 'object' || config === null || typeof config.query === 'function') {
    throw new TypeError('config must be an object with settings for pg.Pool, such as { connectionString: ... }');
  }
  const pool = new Pool({
    allowExitOnIdle: true, connectionTimeoutMillis: timeout, query_timeout: timeout, ...config, max: 1,
  });
  pool.on('error', () => {});    // an idle connection broke: the next query opens another
  return pool;
}

function checkTime(name, time) {
  if (typeof time !== 'number' || !(time > 0)) {
    throw new RangeError(`${name} must be a number of milliseconds greater than 0, not ${time}`);
  }
}

class SnowflakeIds {
  constructor(config = {}, { size = 1000, maxAge = 60000 } = {}) {    // ms
    if (!Number.isInteger(size) || size < 1 || size > MAX_SIZE) {
      throw new RangeError(`size must be a whole number from 1 to ${MAX_SIZE}, not ${size}`);
    }
    checkTime('maxAge', maxAge);
    Object.assign(this, { pool: connect(config), size, maxAge, blocks: [], left: 0n, refill: null, closed: false });
  }

  // Returns an id that nobody else gets.
  async nextId() {
    for (;;) {
      if (this.closed) throw new Error('these snowflake ids are closed');
      while (this.blocks.length > 0 && performance.now() - this.blocks[0].since >= this.maxAge) {
        const old = this.blocks.shift();
        this.left -= old.last - old.next + 1n;
      }
      if (this.blocks.length > 0) break;
      await this.fill();
    }
    const block = this.blocks[0];
    const id = block.next++;
    if (block.next > block.last) this.blocks.shift();
    if (--this.left === BigInt(this.size >> 1)) this.fill().catch(() => {});    // a later call will see the error
    return id;
  }

  // All callers share one request.  Ask for text: the application may have told the
  // driver to return bigints as numbers, which would round them.
  fill() {
    this.refill ??= this.reserve()
      .then((blocks) => {
        this.blocks.push(...blocks);
        for (const block of blocks) this.left += block.last - block.next + 1n;
      }, (error) => {
        throw new Error(`no snowflake ids: the database has reserved none: ${error.message}`, { cause: error });
      })
      .finally(() => { this.refill = null; });
    return this.refill;
  }

  async reserve() {
    const since = performance.now();    // the time of the ids is not before this
    const { rows } = await this.pool.query('SELECT first_id::text, last_id::text FROM snowflake_reserve($1)', [this.size]);
    const took = performance.now() - since;
    if (took >= this.maxAge) throw new Error(`a block took ${took.toFixed()} ms to arrive, and maxAge is ${this.maxAge} ms`);
    const blocks = rows.map((row) => ({ next: BigInt(row.first_id), last: BigInt(row.last_id), since }))
      .filter((block) => block.next <= block.last);
    if (blocks.length === 0) throw new Error('snowflake_reserve() has returned no ids');
    return blocks;
  }

  // Throws away the ids that are left.
  async close() {
    this.closed = true;
    await this.pool.end();
  }
}

const MAX_WAIT = 1000000n;    // us
const INSTANT = (us) => `timestamptz 'epoch' + ${us}::bigint * interval '1 microsecond'`;
const MICROSECONDS = (instant) => `(extract(epoch FROM greatest(${instant}, 'epoch')) * 1000000)::bigint::text`;
const UNITS = { us: 1n, ms: 1000n, s: 1000000n };

function floorDiv(a, b) {
  return a / b - (a % b < 0n ? 1n : 0n);
}

class SnowflakeLease {
  // The layout is a text as snowflake_capacity() returns it.  The duration is in ms; now() returns
  // ms since 1970.
  static async acquire(config, holder, layout, { datacenterId = 0, duration = 60000, now = Date.now } = {}) {
    checkTime('duration', duration);
    const lease = new SnowflakeLease();
    Object.assign(lease, {
      pool: connect(config, Math.min(duration / 3, ANSWER_TIMEOUT)), holder, layout, duration, now,
      maxAhead: BigInt(Math.min(5000000, Math.floor(duration * 1000 / 3))),    // us; less than what is left of a lease that is renewed
      instance: randomUUID(),    // a new one at each start
      calls: Promise.resolve(),    // one call of the registry at a time
      closed: false, failure: undefined,
      workerId: 0n, starts: 0n, ends: 0n,    // us since 1970; no lease: both 0
      word: 0n,    // tick and sequence of the last id
    });
    lease.readLayout(datacenterId);
    await lease.keep();
    lease.timer = setInterval(() => {
      lease.calls = lease.calls.then(() => lease.keep())
        .catch((error) => { lease.failure = error; });    // the next call may succeed, and the lease goes on until its end
    }, duration / 3);
    lease.timer.unref();
    return lease;
  }

  // Returns an id that nobody else makes.
  async nextId() {
    for (;;) {
      if (this.closed) throw new Error('this snowflake lease is closed');
      const now = this.microseconds();
      let tick = floorDiv(now - this.epoch, this.tick);
      if (tick < this.first) tick = this.first;
      let word = tick << this.sequenceBits;
      if (word <= this.word) word = this.word + 1n;
      tick = word >> this.sequenceBits;
      if (tick >= this.end) {
        throw new Error('snowflake lease has ended', { cause: this.failure });
      }
      const missing = tick * this.tick + this.epoch - this.maxAhead - now;
      if (missing > MAX_WAIT) {
        throw new Error(`snowflake ids are too far ahead of the clock, by another ${missing / 1000n} ms`);
      }
      if (missing <= 0n) {
        this.word = word;
        return tick << this.shifts.time | this.datacenter | this.workerId << this.shifts.worker
          | (word & (1n << this.sequenceBits) - 1n) << this.shifts.sequence;
      }
      await new Promise((resolve) => { setTimeout(resolve, Number(missing) / 1000); });
    }
  }

  // Gives the lease back.
  async close() {
    this.closed = true;
    clearInterval(this.timer);
    await this.calls;
    if (this.ends === 0n) return;
    // later than all of its ids
    const used = ((this.word >> this.sequenceBits) + 1n) * this.tick + this.epoch;
    await this.ask(`SELECT snowflake_registry.release($1::bigint, $2::uuid, ${INSTANT('$3')})`,
      [this.workerId, this.instance, used > this.starts ? used : this.starts]);
    this.ends = 0n;
    await this.pool.end();
  }

  // Renew the lease, or get another one.
  async keep() {
    if (this.closed) return;
    const length = `${this.duration} ms`;
    if (this.ends !== 0n) {
      const renewal = `snowflake_registry.renew($1::bigint, $2::uuid, ${INSTANT('$3')}, ${INSTANT('$4')}, $5::interval)`;
      const [{ ends }] = await this.ask(`SELECT ${MICROSECONDS(renewal)} AS ends`,
        [this.workerId, this.instance, this.ends, this.microseconds(), length]);
      if (ends !== '0') {    // not NULL: it is not lost
        this.setLease(this.workerId, this.starts, BigInt(ends));
        return;
      }
    }
    const [row] = await this.ask(`SELECT worker_id::text, ${MICROSECONDS('starts')} AS starts, ${MICROSECONDS('ends')} AS ends
      FROM snowflake_registry.acquire($1::text, $2::uuid, $3::text, $4::bigint, ${INSTANT('$5')}, $6::interval)`,
    [this.holder, this.instance, this.layout, 1n << (this.bits.worker ?? 0n), this.microseconds(), length]);
    if (!row) throw new Error('registry has no free worker id');
    this.setLease(BigInt(row.worker_id), BigInt(row.starts), BigInt(row.ends));
  }

  setLease(workerId, starts, ends) {
    if (workerId !== this.workerId) {
      // in the same tick, ids of another worker may sort below the last one
      this.word |= (1n << this.sequenceBits) - 1n;
    }
    Object.assign(this, { workerId, starts, ends, failure: undefined });
    // ids are of ticks from the first one on, and before the end
    this.first = this.tickFrom(starts);
    if (this.first < 0n) this.first = 0n;
    this.end = this.tickFrom(ends);
    if (this.end > this.ticks) this.end = this.ticks;
  }

  // Run a statement, and return its rows.
  async ask(sql, values) {
    const client = await this.pool.connect();
    const warnings = [];
    const warn = (warning) => warnings.push(warning.message);
    const ignore = () => {};    // query() fails, too
    client.on('notice', warn);
    client.on('error', ignore);
    let failure;
    try {
      const { rows } = await client.query(sql, values.map(String));
      // standbys that the registry has to wait for may not have it
      if (warnings.length > 0) throw new Error(warnings[0]);
      return rows;
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      client.off('notice', warn);
      client.release(failure);    // of a failed one, the connection is not used again
      client.off('error', ignore);
    }
  }

  microseconds() {
    return BigInt(Math.floor(this.now())) * 1000n;
  }

  // The first tick that begins at an instant or later.
  tickFrom(instant) {
    return -floorDiv(this.epoch - instant, this.tick);
  }

  readLayout(datacenterId) {
    const rest = /^time:\d+(?: \w+:\d+)* tick:(\d+)(us|ms|s) epoch:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z$/.exec(this.layout);
    if (rest === null) {
      throw new Error(`a layout has fields, tick and epoch, as snowflake_capacity() returns it: ${this.layout}`);
    }
    this.tick = BigInt(rest[1]) * UNITS[rest[2]];
    this.epoch = BigInt(Date.parse(`${rest[3]}Z`)) * 1000n + BigInt((rest[4] ?? '').padEnd(6, '0'));
    let shift = 0n;
    this.bits = {};
    this.shifts = { worker: 0n, sequence: 0n, datacenter: 0n };
    for (const [, name, bits] of [...this.layout.matchAll(/(\w+):(\d+) /g)].reverse()) {    // lane, timeline and tag are 0
      this.bits[name] = BigInt(bits);
      this.shifts[name] = shift;
      shift += this.bits[name];
    }
    this.sequenceBits = this.bits.sequence ?? 0n;
    this.ticks = 1n << this.bits.time;
    this.datacenter = BigInt(datacenterId) << this.shifts.datacenter;
    if (datacenterId < 0 || BigInt(datacenterId) >> (this.bits.datacenter ?? 0n) !== 0n) {
      throw new Error(`datacenter id ${datacenterId} does not fit the layout`);
    }
  }
}

module.exports = { SnowflakeIds, SnowflakeLease };
