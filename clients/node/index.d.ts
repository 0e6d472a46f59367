import { PoolConfig } from 'pg';

/** Ids from blocks of snowflake_reserve(), for all callers of one thread. */
export class SnowflakeIds {
  /**
   * @param config of a connection of its own, as for pg.Pool
   * @param options.size ids in a block, 1 to 1,000,000; by default 1000
   * @param options.maxAge how old the time of an id may be, in ms; by default 60000
   */
  constructor(config?: PoolConfig, options?: { size?: number; maxAge?: number });

  /** An id that nobody else gets. */
  nextId(): Promise<bigint>;

  /** Throws away the ids that are left.  Later calls of nextId() fail. */
  close(): Promise<void>;
}

/** Ids that this thread makes by itself, with a worker id leased from snowflake_registry. */
export class SnowflakeLease {
  private constructor();

  /**
   * @param config of a connection to the registry, as for pg.Pool
   * @param holder a name for this process, which the registry shows
   * @param layout a text as snowflake_capacity() returns it
   * @param options.duration of the lease, in ms; by default 60000
   * @param options.now the clock, in ms since 1970; by default Date.now
   */
  static acquire(config: PoolConfig, holder: string, layout: string,
    options?: { datacenterId?: number; duration?: number; now?: () => number }): Promise<SnowflakeLease>;

  /** An id that nobody else makes. */
  nextId(): Promise<bigint>;

  /** Gives the lease back.  Later calls of nextId() fail. */
  close(): Promise<void>;
}
