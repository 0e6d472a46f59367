// Print rates in Java: measure, source of the ids, ids or rows per second.
//
// usage: java Blocks ROUNDS, with the classes of clients/java in the class path
import java.sql.*;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.postgresql.ds.PGSimpleDataSource;
import snowflake.*;

public class Blocks {
    interface Work {
        void run() throws Exception;
    }

    static void measure(String name, String way, int threads, int count, Work work) throws Exception {
        Thread[] running = new Thread[threads];
        long begin = System.nanoTime();
        for (int i = 0; i < threads; i++) {
            running[i] = new Thread(() -> {
                try {
                    for (int n = 0; n < count; n++) work.run();
                } catch (Exception e) {
                    throw new RuntimeException(e);
                }
            });
            running[i].start();
        }
        for (Thread thread : running) thread.join();
        System.out.printf("Java: %s\t%s\t%f%n", name, way, threads * (double) count * 1e9 / (System.nanoTime() - begin));
    }

    static void measureIds(int threads, LongSupplier... sources) throws Exception {
        String[] ways = {"`AtomicLong`", "lease", "block"};
        for (int i = 0; i < ways.length; i++) {
            LongSupplier source = sources[i];
            String name = threads == 1 ? "an id" : "an id, " + threads + " threads";
            measure(name, ways[i], threads, 4_000_000 / threads, () -> source.getAsLong());
        }
    }

    public static void main(String[] args) throws Exception {
        PGSimpleDataSource database = new PGSimpleDataSource();
        database.setURL("jdbc:postgresql://localhost:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"));
        database.setUser(System.getenv("PGUSER"));
        SnowflakeIds blocks = new SnowflakeIds(database, 100_000, Duration.ofMinutes(1));
        SnowflakeLease lease = new SnowflakeLease(database, "bench",
            "time:41 worker:5 sequence:17 tick:1ms epoch:2026-01-01T00:00:00Z", 0, Duration.ofMinutes(1));
        AtomicLong counter = new AtomicLong();
        Connection connection = database.getConnection();
        PreparedStatement plain = connection.prepareStatement("INSERT INTO orders (id, item) VALUES (?, 'tea')");
        PreparedStatement returning = connection.prepareStatement("INSERT INTO orders (item) VALUES ('tea')", new String[] {"id"});
        for (int round = 0; round < Integer.parseInt(args[0]); round++) {
            for (int threads : new int[] {1, 16}) measureIds(threads, counter::incrementAndGet, lease::nextId, blocks::nextId);
            measure("a row by `INSERT`", "default and `RETURNING`", 1, 5000, () -> {
                returning.executeUpdate();
                returning.getGeneratedKeys().next();
            });
            measure("a row by `INSERT`", "block", 1, 5000, () -> {
                plain.setLong(1, blocks.nextId());
                plain.executeUpdate();
            });
            connection.createStatement().execute("TRUNCATE orders");
        }
        lease.close();
        blocks.close();
    }
}
