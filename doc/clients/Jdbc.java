// java -cp /usr/share/java/postgresql.jar Jdbc.java
import java.sql.*;

public class Jdbc {
    public static void main(String[] args) throws SQLException {
        // prepareThreshold=0 behind pgbouncer in transaction mode
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        Connection db = DriverManager.getConnection(url + "?prepareThreshold=0", System.getenv("PGUSER"), null);
        Statement statement = db.createStatement();
        statement.execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text)");
        statement.execute("CREATE TABLE parcels (id bigint PRIMARY KEY DEFAULT snowflake_id(), order_id bigint REFERENCES orders)");
        PreparedStatement insert = db.prepareStatement("INSERT INTO orders (item) SELECT unnest(?::text[])", new String[] {"id"});
        insert.setArray(1, db.createArrayOf("text", new String[] {"tea"}));
        insert.executeUpdate();
        ResultSet keys = insert.getGeneratedKeys();
        keys.next();
        statement.execute("INSERT INTO parcels (order_id) VALUES (" + keys.getLong("id") + ")");
        ResultSet row = statement.executeQuery("SELECT orders.id, to_jsonb(orders) FROM parcels JOIN orders ON orders.id = order_id");
        row.next();
        System.out.println(keys.getLong("id") + "\n" + row.getLong(1) + "\n" + row.getString(2));
        insert.setArray(1, db.createArrayOf("text", java.util.Collections.nCopies(100, "coffee").toArray()));
        insert.executeUpdate();
    }
}
