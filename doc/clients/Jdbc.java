// java -cp /usr/share/java/postgresql.jar Jdbc.java
import java.sql.*;

public class Jdbc {
    public static void main(String[] args) throws SQLException {
        String server = System.getenv("PGHOST") + ":" + System.getenv("PGPORT");
        // prepareThreshold=0 behind pgbouncer in transaction mode
        try (Connection connection = DriverManager.getConnection("jdbc:postgresql://" + server + "/"
                + System.getenv("PGDATABASE") + "?prepareThreshold=0", System.getenv("PGUSER"), null);
             PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO orders (item) VALUES ('tea')", new String[] {"id"})) {
            insert.executeUpdate();
            ResultSet keys = insert.getGeneratedKeys();
            keys.next();
            System.out.println(keys.getLong("id"));
        }
    }
}
