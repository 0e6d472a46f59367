// Insert orders by Hibernate, with ids from blocks.  Prints the checks.
import java.time.Duration;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import javax.persistence.*;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.GenericGenerator;
import org.hibernate.cfg.Configuration;
import org.postgresql.ds.PGSimpleDataSource;
import snowflake.SnowflakeIds;

public class Hibernate {
    @Entity
    @Table(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(generator = "snowflake")
        @GenericGenerator(name = "snowflake", strategy = "SnowflakeIdGenerator")
        public Long id;
        public String item;
    }

    static void check(String what, boolean passed) {
        System.out.println((passed ? "ok" : "not ok") + " - generators: Hibernate: " + what);
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://localhost:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        PGSimpleDataSource database = new PGSimpleDataSource();
        database.setURL(url);
        database.setUser(System.getenv("PGUSER"));
        SnowflakeIdGenerator.ids = new SnowflakeIds(database, 1000, Duration.ofMinutes(1));
        Properties properties = new Properties();
        properties.setProperty("hibernate.connection.url", url);
        properties.setProperty("hibernate.connection.username", System.getenv("PGUSER"));
        properties.setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect");
        properties.setProperty("hibernate.hbm2ddl.auto", "create");
        properties.setProperty("hibernate.jdbc.batch_size", "50");
        properties.setProperty("hibernate.temp.use_jdbc_metadata_defaults", "false");
        SessionFactory factory = new Configuration().addAnnotatedClass(Order.class).addProperties(properties).buildSessionFactory();
        Session session = factory.openSession();
        Set<Long> ids = new HashSet<>();
        session.beginTransaction();
        for (int i = 0; i < 2500; i++) {
            Order order = new Order();
            order.item = "tea";
            session.save(order);
            ids.add(order.id);
        }
        session.getTransaction().commit();
        check("2500 orders have different ids", ids.size() == 2500 && !ids.contains(null));
        session.clear();
        check("which are those of their rows", ids.equals(new HashSet<Object>(session.createQuery("select o.id from Hibernate$Order o").list())));
        session.close();
        factory.close();
        SnowflakeIdGenerator.ids.close();
    }
}
