package snowflake;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;

/**
 * Ids that this process makes by itself, with a worker id leased from snowflake_registry.
 *
 * <p>A lease is a range of time in the ids. An id is made only if its time is within the lease, and if it is
 * greater than the last one, so that no step of the clock, pause or lost answer makes one twice. Like the
 * server's, ids are at most 5 s ahead of the clock (a third of a shorter lease); nextId() waits for the clock for at
 * most 1 s, and throws an IllegalStateException at once if that is not enough, or if the lease has ended.
 */
public final class SnowflakeLease implements AutoCloseable {
    private static final long MAX_WAIT = 1_000_000;    // us

    private final DataSource registry;
    private final String holder;
    private final String layout;
    private final Duration duration;
    private final Clock clock;
    private final long maxAhead;    // us; less than what is left of a lease that is renewed
    private final UUID instance = UUID.randomUUID();    // a new one at each start
    private final ScheduledThreadPoolExecutor background = new ScheduledThreadPoolExecutor(1, run -> {
        Thread thread = new Thread(run, "snowflake lease");
        thread.setDaemon(true);
        return thread;
    });

    private final Object calls = new Object();    // one call of the registry at a time

    // of the layout
    private long tick;    // us
    private long epoch;    // us since 1970
    private int timeShift, workerShift, workerBits, sequenceShift, sequenceBits;
    private long datacenter;    // in place
    private long lastTick;

    // the lock of this object protects the rest
    private volatile boolean closed;
    private long workerId;
    private long starts, ends;    // us since 1970; no lease: both 0
    private long firstTick, endTick;    // ids are of ticks from the first one on, and before the other
    private long word;    // tick and sequence of the last id
    private Throwable failure;    // of the last call of the registry

    /** The layout is a text as snowflake_capacity() returns it, with fields, tick and epoch. */
    public SnowflakeLease(DataSource registry, String holder, String layout, int datacenterId, Duration duration)
            throws SQLException {
        this(registry, holder, layout, datacenterId, duration, Clock.systemUTC());
    }

    public SnowflakeLease(DataSource registry, String holder, String layout, int datacenterId, Duration duration,
            Clock clock) throws SQLException {
        if (duration.toMillis() < 1) throw new IllegalArgumentException("duration must be at least 1 ms, not " + duration);
        this.registry = Objects.requireNonNull(registry, "registry");
        this.holder = holder;
        this.layout = layout;
        this.duration = duration;
        this.clock = clock;
        maxAhead = Math.min(5_000_000, duration.toMillis() * 1000 / 3);
        readLayout(datacenterId);
        keep();
        long third = duration.toMillis() / 3;
        background.scheduleAtFixedRate(() -> {
            try {
                keep();
            } catch (Throwable e) {
                synchronized (this) {
                    failure = e;    // the next call may succeed, and the lease goes on until its end
                }
            }
        }, third, third, TimeUnit.MILLISECONDS);
    }

    /** Returns an id that nobody else makes. */
    public synchronized long nextId() {
        for (;;) {
            if (closed) throw new IllegalStateException("this snowflake lease is closed");
            long now = now();
            long from = Math.max(Math.floorDiv(now - epoch, tick), firstTick);
            // beyond the last tick, the word would overflow
            boolean ended = from >= endTick || word == Long.MAX_VALUE;
            long next = ended ? 0 : Math.max(word + 1, from << sequenceBits);
            long nextTick = next >> sequenceBits;
            if (ended || nextTick >= endTick) throw new IllegalStateException("snowflake lease has ended", failure);
            long missing = nextTick * tick + epoch - maxAhead - now;
            if (missing > MAX_WAIT) {
                throw new IllegalStateException("snowflake ids are too far ahead of the clock, by another " + missing / 1000 + " ms");
            }
            if (missing <= 0) {
                word = next;
                return nextTick << timeShift | datacenter | workerId << workerShift
                    | (next & (1L << sequenceBits) - 1) << sequenceShift;
            }
            try {
                TimeUnit.MICROSECONDS.timedWait(this, missing);    // others may close it meanwhile
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while waiting for the clock", e);
            }
        }
    }

    /** Gives the lease back.  Later calls of nextId() fail. */
    @Override
    public void close() throws SQLException {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        background.shutdown();
        synchronized (calls) {
            if (ends == 0) return;
            // later than all of its ids
            long used = Math.max(((word >> sequenceBits) + 1) * tick + epoch, starts);
            ask("SELECT 0, 0, snowflake_registry.release(?, ?::uuid, " + INSTANT + ")::integer", workerId, instance.toString(), used);
            ends = 0;
        }
    }

    private static final String INSTANT = "timestamptz 'epoch' + ? * interval '1 microsecond'";

    private static String microseconds(String instant) {
        return "(extract(epoch FROM greatest(" + instant + ", 'epoch')) * 1000000)::bigint";
    }

    /** Renews the lease, or gets another one. */
    private void keep() throws SQLException {
        synchronized (calls) {
            if (closed) return;
            String length = duration.toMillis() + " ms";
            if (ends != 0) {
                long[] renewed = ask("SELECT 0, 0, " + microseconds("snowflake_registry.renew(?, ?::uuid, " + INSTANT + ", " + INSTANT + ", ?::interval)"),
                    workerId, instance.toString(), ends, now(), length);
                if (renewed[2] != 0) {    // not NULL: it is not lost
                    setLease(workerId, starts, renewed[2]);
                    return;
                }
            }
            long[] lease = ask("SELECT worker_id, " + microseconds("starts") + ", " + microseconds("ends")
                    + " FROM snowflake_registry.acquire(?, ?::uuid, ?, ?, " + INSTANT + ", ?::interval)",
                holder, instance.toString(), layout, 1L << workerBits, now(), length);
            if (lease == null) throw new IllegalStateException("registry has no free worker id");
            setLease(lease[0], lease[1], lease[2]);
        }
    }

    private synchronized void setLease(long newWorkerId, long newStarts, long newEnds) {
        // in the same tick, ids of another worker may sort below the last one
        if (newWorkerId != workerId) word |= (1L << sequenceBits) - 1;
        workerId = newWorkerId;
        starts = newStarts;
        ends = newEnds;
        firstTick = Math.max(tickFrom(starts), 0);
        endTick = Math.min(tickFrom(ends), lastTick + 1);
        failure = null;
    }

    /** Runs a statement, and commits it.  Returns its row, or null.  Does not wait for long. */
    private long[] ask(String sql, Object... arguments) throws SQLException {
        FutureTask<long[]> call = new FutureTask<>(() -> {
            try (Connection connection = registry.getConnection(); PreparedStatement query = connection.prepareStatement(sql)) {
                for (int i = 0; i < arguments.length; i++) query.setObject(i + 1, arguments[i]);
                try (ResultSet rows = query.executeQuery()) {
                    long[] row = rows.next() ? new long[] {rows.getLong(1), rows.getLong(2), rows.getLong(3)} : null;
                    if (!connection.getAutoCommit()) connection.commit();
                    // standbys that the registry has to wait for may not have it
                    if (query.getWarnings() != null) throw query.getWarnings();
                    if (connection.getWarnings() != null) throw connection.getWarnings();
                    return row;
                }
            }
        });
        Thread thread = new Thread(call, "snowflake lease");
        thread.setDaemon(true);
        thread.start();
        try {
            return call.get(Math.min(duration.toMillis() / 3, 10_000), TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof SQLException) throw (SQLException) e.getCause();
            throw new IllegalStateException(e.getCause());
        } catch (TimeoutException e) {
            throw new SQLTimeoutException("registry does not answer");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SQLTimeoutException("interrupted while waiting for the registry");
        }
    }

    private long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, clock.instant());
    }

    /** The first tick that begins at an instant or later. */
    private long tickFrom(long instant) {
        return -Math.floorDiv(epoch - instant, tick);
    }

    private static final Pattern LAYOUT = Pattern.compile("(time:\\d+(?: \\w+:\\d+)*) tick:(\\d+)(us|ms|s) epoch:(\\S+)");

    private void readLayout(int datacenterId) {
        int timeBits = 0, datacenterShift = 0, datacenterBits = 0, shift = 0;
        Matcher parts = LAYOUT.matcher(layout);

        if (!parts.matches()) {
            throw new IllegalArgumentException("a layout has fields, tick and epoch, as snowflake_capacity() returns it: " + layout);
        }
        tick = Long.parseLong(parts.group(2)) * (parts.group(3).equals("s") ? 1_000_000 : parts.group(3).equals("ms") ? 1000 : 1);
        epoch = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.parse(parts.group(4)));
        String[] fields = parts.group(1).split(" ");
        for (int i = fields.length - 1; i >= 0; i--) {
            String[] field = fields[i].split(":");
            int bits = Integer.parseInt(field[1]);
            switch (field[0]) {
                case "time": timeShift = shift; timeBits = bits; break;
                case "datacenter": datacenterShift = shift; datacenterBits = bits; break;
                case "worker": workerShift = shift; workerBits = bits; break;
                case "sequence": sequenceShift = shift; sequenceBits = bits; break;
                default:    // lane, timeline and tag are 0
            }
            shift += bits;
        }
        lastTick = (1L << timeBits) - 1;
        if (datacenterId < 0 || datacenterId >> datacenterBits != 0) {
            throw new IllegalArgumentException("datacenter id " + datacenterId + " does not fit the layout");
        }
        datacenter = (long) datacenterId << datacenterShift;
    }
}
