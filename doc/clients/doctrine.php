<?php    // Doctrine needs the id before the insert, so it asks the server for each one.
require 'Doctrine/ORM/autoload.php';
use Doctrine\{DBAL\DriverManager, ORM\EntityManager, ORM\EntityManagerInterface, ORM\ORMSetup, ORM\Tools\SchemaTool, ORM\Mapping as ORM, Persistence\Mapping\Driver\ClassNames};
class Snowflake extends Doctrine\ORM\Id\AbstractIdGenerator {
    function generateId(EntityManagerInterface $em, ?object $entity): int { return $em->getConnection()->fetchOne('SELECT snowflake_id()'); } }
trait Key { #[ORM\Id, ORM\GeneratedValue('CUSTOM'), ORM\CustomIdGenerator(Snowflake::class)]
    #[ORM\Column(type: 'bigint', options: ['default' => 'snowflake_id()'])] public int $id; }
#[ORM\Entity, ORM\Table('orders')] class Order { use Key;
    #[ORM\Column(type: 'text')] public string $item = 'tea'; }
#[ORM\Entity, ORM\Table('parcels')] class Parcel { use Key;
    function __construct(    // without null, the column would get the default of orders.id
        #[ORM\ManyToOne, ORM\JoinColumn(options: ['default' => null])] public Order $order) {} }
$config = ORMSetup::createAttributeMetadataConfig(new ClassNames([Order::class, Parcel::class]), true);
$config->enableNativeLazyObjects(true);
// Without this filter, diffs would drop the sequences.  With Symfony, use doctrine.dbal.schema_filter: '~^(?!snowflake_internal\.)~'
$config->setSchemaAssetsFilter(fn ($asset) => !str_starts_with(is_string($asset) ? $asset : $asset->getName(), 'snowflake_internal.'));
$em = new EntityManager(DriverManager::getConnection(['driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'), 'dbname' => getenv('PGDATABASE'), 'user' => getenv('PGUSER')], $config), $config);
(new SchemaTool($em))->createSchema($em->getMetadataFactory()->getAllMetadata());
$em->persist($order = new Order);
$em->persist(new Parcel($order));
$em->flush();
$em->clear();
$parcel = $em->createQuery('SELECT p, o FROM Parcel p JOIN p.order o')->getSingleResult();
echo $order->id, "\n", $parcel->order->id, "\n", json_encode($parcel), "\n";    // a number: (string) for JavaScript
