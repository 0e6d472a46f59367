import java.io.Serializable;
import org.hibernate.engine.SessionImplementor;
import org.hibernate.id.IdentifierGenerator;
import snowflake.SnowflakeIds;

/**
 * Ids from blocks for Hibernate: rows are inserted in batches, since their ids are known before.
 *
 * <pre>
 * SnowflakeIdGenerator.ids = new SnowflakeIds(dataSource);    // before the SessionFactory is built
 * &#64;Id &#64;GeneratedValue(generator = "snowflake")
 * &#64;GenericGenerator(name = "snowflake", strategy = "SnowflakeIdGenerator")
 * private Long id;
 * </pre>
 *
 * This is for Hibernate 3.6, with which it is tested. In version 5, import
 * org.hibernate.engine.spi.SharedSessionContractImplementor, and let generate() take one. In version 6,
 * let it return Object, and replace the last annotation by &#64;IdGeneratorType on an annotation of
 * your own. (Neither was run.)
 */
public class SnowflakeIdGenerator implements IdentifierGenerator {
    public static volatile SnowflakeIds ids;

    @Override
    public Serializable generate(SessionImplementor session, Object entity) {
        return ids.nextId();
    }
}
