<?php    // Doctrine, after its example: diffs against the database, and dropping.
require dirname(__DIR__, 3) . '/doc/clients/doctrine.php';
use Doctrine\ORM\{EntityManager, Mapping as ORM, Tools\SchemaTool};

function check(string $name, bool $condition): void {
    echo $condition ? 'ok' : 'not ok', " - $name\n";
}

$connection = $em->getConnection();
$classes = $em->getMetadataFactory()->getAllMetadata();
$tool = new SchemaTool($em);
$largest = fn () => $connection->fetchOne('SELECT max(id) FROM orders');
$extension = fn () => $connection->fetchOne("SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'") === 1;

#[ORM\Entity, ORM\Table('orders')] class Identity {
    #[ORM\Id, ORM\GeneratedValue('IDENTITY'), ORM\Column(type: 'bigint')] public int $id;
    #[ORM\Column(type: 'text')] public string $item = 'milk';
}

function fails(callable $insert): bool {
    try {
        $insert();
        return false;
    } catch (Doctrine\DBAL\Exception\DriverException $e) {
        return $e->getPrevious() instanceof Doctrine\DBAL\Driver\Exception\NoIdentityValue;
    }
}

$connection->executeStatement("INSERT INTO orders (item) VALUES ('milk')");
check('lastInsertId() does not know the id', fails(fn () => $connection->lastInsertId()));
$identity = new EntityManager($connection, $config);
$identity->persist(new Identity);
check('and IDENTITY fails with the default', fails(fn () => $identity->flush()));
check('RETURNING returns it', $connection->fetchOne("INSERT INTO orders (item) VALUES ('milk') RETURNING id") === $largest());

// orm:schema-tool:update, and what migrations:diff compares
$diff = $tool->getUpdateSchemaSql($classes);
print implode("\n", $diff) . "\n";
check('the diff is empty', $diff === []);
$filter = $config->getSchemaAssetsFilter();
$config->setSchemaAssetsFilter(fn () => true);
$diff = $tool->getUpdateSchemaSql($classes);
print implode("\n", $diff) . "\n";
check('without the filter, it is not empty', preg_grep('/^DROP SEQUENCE snowflake_internal\.mark/', $diff) !== []);
$config->setSchemaAssetsFilter($filter);

// orm:schema-tool:drop, with --full-database, too
foreach (['dropSchema' => [$classes], 'dropDatabase' => []] as $drop => $arguments) {
    $tool->$drop(...$arguments);
    check("$drop() drops the tables", $connection->fetchOne("SELECT to_regclass('orders')") === null);
    check("and leaves the extension", $extension());
    $tool->createSchema($classes);
    $em->clear();
    $em->persist($order = new Order);
    $em->flush();
    check('new ids are still ahead of the clock', $order->id > (int) getenv('AHEAD'));
}
$config->setSchemaAssetsFilter(fn () => true);
try {
    $tool->dropDatabase();
    $failed = false;
} catch (Doctrine\DBAL\Exception $e) {
    print $e->getMessage() . "\n";
    $failed = true;
}
check('dropDatabase() needs the filter', $failed && $extension());
