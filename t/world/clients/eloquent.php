<?php    // Eloquent, after its example: what PDO knows of an id, and what db:wipe and migrate:fresh do.
require dirname(__DIR__, 3) . '/doc/clients/eloquent.php';
use Illuminate\Database\Capsule\Manager;

function check(string $name, bool $condition): void {
    echo $condition ? 'ok' : 'not ok', " - $name\n";
}

function create(): void {
    Manager::schema()->create('orders', function ($table) { $table->snowflake(); $table->text('item'); });
}

function extension(): bool {
    return Manager::selectOne("SELECT count(*) AS n FROM pg_extension WHERE extname = 'snowflake'")->n > 0;
}

// lastval() is for sequences only
$pdo = Manager::connection()->getPdo();
try {
    $pdo->query("INSERT INTO orders (item) VALUES ('milk')");
    $seen = $pdo->lastInsertId();
} catch (PDOException $e) {
    $seen = $e->getCode();
}
check('lastInsertId() does not know the id', $seen === '55000');
$returned = $pdo->query("INSERT INTO orders (item) VALUES ('milk') RETURNING id")->fetchColumn();
check('RETURNING returns it', $returned == Order::max('id'));
check('insertGetId() returns it, too', Manager::table('orders')->insertGetId(['item' => 'milk']) === Order::max('id'));

$order = Order::where('item', 'tea')->first();
class Text extends Order { protected $table = 'orders'; protected $casts = ['id' => 'string']; }
check('a cast writes text in JSON', json_decode(Text::find($order->id)->toJson())->id === (string) $order->id);

// schema:dump, into a database that has been wiped, as migrate does
$before = (int) getenv('AHEAD');
$state = Manager::connection()->getSchemaState();
$state->dump(Manager::connection(), 'schema.sql');
Manager::schema()->dropAllTables();
Manager::statement('DROP EXTENSION snowflake');
$state->load('schema.sql');
check('schema:dump has the default and the extension', extension() && Order::create(['item' => 'tea'])->id > $before);

// db:wipe --drop-views --drop-types, and migrate:fresh
Manager::schema()->dropAllViews();
Manager::schema()->dropAllTables();
Manager::schema()->dropAllTypes();
check('wiping drops the tables', !Manager::schema()->hasTable('orders'));
check('and leaves the extension', extension());
create();
check('new ids are still ahead of the clock', Order::create(['item' => 'tea'])->id > $before);

