// The commands of t/world/generators.py, for clients/java.
import java.io.*;
import java.nio.*;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.LongSupplier;
import org.postgresql.ds.PGSimpleDataSource;
import snowflake.*;

public class Contract {
    static long offset = 0;
    static final Clock clock = new Clock() {
        public ZoneId getZone() { return ZoneOffset.UTC; }
        public Clock withZone(ZoneId zone) { return this; }
        public Instant instant() { return Instant.now().plusMillis(offset); }
    };

    // virtual threads, which Java has from 21 on
    static ExecutorService threads() throws Exception {
        try {
            return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (NoSuchMethodException e) {
            return Executors.newCachedThreadPool();
        }
    }

    static void write(LongSupplier ids, int threads, int count, String file) throws Exception {
        LongBuffer all = LongBuffer.allocate(threads * count);
        ExecutorService pool = threads();
        List<Future<?>> done = new ArrayList<>();
        long begin = System.nanoTime();
        for (int thread = 0; thread < threads; thread++) {
            LongBuffer part = all.slice(thread * count, count);
            done.add(pool.submit(() -> {
                while (part.hasRemaining()) part.put(ids.getAsLong());
            }));
        }
        for (Future<?> each : done) each.get();
        System.out.printf("%.0f ids per second%n", threads * (double) count / ((System.nanoTime() - begin) / 1e9));
        pool.shutdown();
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file)))) {
            for (long id : all.array()) out.writeLong(id);
        }
    }

    public static void main(String[] args) throws Exception {
        PGSimpleDataSource database = new PGSimpleDataSource();
        database.setURL("jdbc:postgresql://localhost:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"));
        database.setUser(System.getenv("PGUSER"));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        AutoCloseable generator = null;
        LongSupplier ids = null;
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ", 5);
            try {
                switch (words[0]) {
                    case "blocks":
                        SnowflakeIds blocks = new SnowflakeIds(database, Integer.parseInt(words[1]), Duration.ofMillis(Long.parseLong(words[2])));
                        generator = blocks;
                        ids = blocks::nextId;
                        break;
                    case "lease":
                        SnowflakeLease lease = new SnowflakeLease(database, words[1], words[4], Integer.parseInt(words[2]), Duration.ofMillis(Long.parseLong(words[3])), clock);
                        generator = lease;
                        ids = lease::nextId;
                        break;
                    case "next":
                        for (int i = Integer.parseInt(words[1]); i > 0; i--) System.out.println(ids.getAsLong());
                        break;
                    case "write": write(ids, Integer.parseInt(words[1]), Integer.parseInt(words[2]), words[3]); break;
                    case "clock": offset = Long.parseLong(words[1]); break;
                    case "close": generator.close(); break;
                }
                System.out.println("ok");
            } catch (Exception e) {
                System.out.println("error " + e.getMessage() + (e.getCause() == null ? "" : ": " + e.getCause().getMessage()).replace("\n", " "));
            }
        }
    }
}
