package snowflake;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.sql.DataSource;

/**
 * Ids from blocks of snowflake_reserve(), without a round trip for each id.
 *
 * <p>A double buffer: when half of a block is used up, the next one is fetched in the background. Any number
 * of threads may share it. While the database is away, nextId() returns the ids that are left, and then
 * throws an IllegalStateException with the cause.
 *
 * <p>The time in an id is that of its block. What is left of a block after maxAge is thrown away, so no id
 * is older than that when it is returned.
 */
public final class SnowflakeIds implements AutoCloseable {
    /** Consecutive ids. */
    private static final class Block {
        final AtomicLong next;
        final long last;
        long refillAt;    // from this id on, fetch the next block

        Block(long first, long last) {
            next = new AtomicLong(first);
            this.last = last;
        }
    }

    private static final int ANSWER_TIMEOUT = 10_000;    // ms
    private static final int MAX_SIZE = 1_000_000;    // what one call of snowflake_reserve() returns at most

    private final DataSource database;
    private final int size;
    private final Duration maxAge;
    private final ScheduledThreadPoolExecutor background;
    private volatile Block block = new Block(0, -1);

    // the lock of this object protects the rest
    private final Queue<Block> blocks = new ArrayDeque<>();
    private long left;    // ids in "blocks"
    private Object fetching;    // what is under way, or null
    private boolean closed;
    private Throwable failure;    // of the last fetch
    private long fetches;

    /** Blocks of 1000 ids, none of which is older than a minute when it is returned. */
    public SnowflakeIds(DataSource database) {
        this(database, 1000, Duration.ofMinutes(1));
    }

    /** A block has "size" ids, 1 to 1,000,000. */
    public SnowflakeIds(DataSource database, int size, Duration maxAge) {
        if (size < 1 || size > MAX_SIZE) {
            throw new IllegalArgumentException("size must be from 1 to " + MAX_SIZE + ", not " + size);
        }
        if (maxAge.isNegative() || maxAge.isZero()) {
            throw new IllegalArgumentException("maxAge must be greater than 0, not " + maxAge);
        }
        this.database = Objects.requireNonNull(database, "database");
        this.size = size;
        this.maxAge = maxAge;
        background = new ScheduledThreadPoolExecutor(1, run -> {
            Thread thread = new Thread(run, "snowflake ids");
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Returns an id that nobody else gets. */
    public long nextId() {
        for (;;) {
            Block current = block;
            long id = current.next.getAndIncrement();
            if (id <= current.last) {
                if (id >= current.refillAt) fetchNext(current);
                return id;
            }
            changeBlock(current);
        }
    }

    private synchronized void fetchNext(Block half) {
        half.refillAt = Long.MAX_VALUE;    // once is enough
        if (fetching == null && !closed) {
            Object fetch = new Object();
            Thread thread = new Thread(() -> fetch(fetch), "snowflake ids");
            thread.setDaemon(true);
            thread.start();
            fetching = fetch;
        }
    }

    /** Goes on to the next block.  Waits until there is one. */
    private synchronized void changeBlock(Block used) {
        if (block != used) return;    // another thread was first
        while (blocks.isEmpty() || closed) {
            if (closed) throw new IllegalStateException("these snowflake ids are closed");
            long before = fetches;
            fetchNext(used);
            Object fetch = fetching;
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ANSWER_TIMEOUT);
            while (fetches == before && !closed) {
                long rest = deadline - System.nanoTime();
                if (rest <= 0) {
                    end(fetch);    // it does not hold up the next one
                    throw new IllegalStateException("no snowflake ids: the database does not answer");
                }
                try {
                    TimeUnit.NANOSECONDS.timedWait(this, rest);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new IllegalStateException("interrupted while waiting for snowflake ids", e);
                }
            }
            if (block != used) return;
            if (blocks.isEmpty() && failure != null) {
                throw new IllegalStateException("no snowflake ids: the database has reserved none", failure);
            }
        }
        Block next = blocks.remove();
        left -= next.last - next.next.get() + 1;
        next.refillAt = next.last + left - size / 2;
        block = next;
    }

    private void end(Object fetch) {
        if (fetching == fetch) fetching = null;
    }

    private void fetch(Object fetch) {
        Queue<Block> fetched = new ArrayDeque<>();
        Throwable error = null;
        long begin = System.nanoTime();    // the time of the ids is not before this

        try (Connection connection = database.getConnection();
             PreparedStatement query = connection.prepareStatement("SELECT first_id, last_id FROM snowflake_reserve(?)")) {
            query.setInt(1, size);
            try (ResultSet rows = query.executeQuery()) {
                while (rows.next()) {
                    Block each = new Block(rows.getLong(1), rows.getLong(2));
                    if (!rows.wasNull() && each.next.get() <= each.last) fetched.add(each);
                }
            }
            if (fetched.isEmpty()) throw new IllegalStateException("snowflake_reserve() has returned no ids");
            Duration took = Duration.ofNanos(System.nanoTime() - begin);
            if (took.compareTo(maxAge) >= 0) {
                throw new IllegalStateException("a block took " + took + " to arrive, and maxAge is " + maxAge);
            }
        } catch (Throwable e) {
            fetched.clear();    // the last row may not have come
            error = e;
        }
        synchronized (this) {
            blocks.addAll(fetched);
            for (Block each : fetched) left += each.last - each.next.get() + 1;
            failure = error;
            end(fetch);
            fetches++;
            notifyAll();
            long rest = maxAge.toNanos() - (System.nanoTime() - begin);
            if (!closed) background.schedule(() -> discard(fetched), rest, TimeUnit.NANOSECONDS);
        }
    }

    private synchronized void discard(Queue<Block> old) {
        for (Block each : old) {
            if (blocks.remove(each)) left -= each.last - each.next.get() + 1;
            each.next.set(each.last + 1);
        }
    }

    /** Throws away the ids that are left.  Later calls of nextId() fail. */
    @Override
    public synchronized void close() {
        closed = true;
        background.shutdownNow();
        blocks.forEach(each -> each.next.set(each.last + 1));
        blocks.clear();
        block.next.set(block.last + 1);
        notifyAll();
    }
}
