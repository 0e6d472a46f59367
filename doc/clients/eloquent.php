<?php    // Laravel's Eloquent.  A migration makes the same calls to Schema::create().
require 'Illuminate/Database/autoload.php';
use Illuminate\Database\{Capsule\Manager, Eloquent\Model, Query\Expression, Schema\Blueprint};

$db = new Manager;
$db->addConnection(['driver' => 'pgsql', 'host' => getenv('PGHOST'), 'database' => getenv('PGDATABASE'), 'username' => getenv('PGUSER')]);
$db->setAsGlobal();
$db->bootEloquent();
Blueprint::macro('snowflake', fn ($name = 'id') => $this->bigInteger($name)->default(new Expression('snowflake_id()'))->primary());
Manager::schema()->create('orders', function ($table) { $table->snowflake(); $table->text('item'); });
Manager::schema()->create('parcels', function ($table) { $table->snowflake(); $table->foreignId('order_id')->constrained('orders'); });

class Order extends Model { public $timestamps = false; protected $guarded = [];
    function parcels() { return $this->hasMany(Parcel::class); } }
class Parcel extends Model { public $timestamps = false; protected $guarded = [];
    function order() { return $this->belongsTo(Order::class); } }

$order = Order::create(['item' => 'tea']);    // INSERT ... RETURNING id
$order->parcels()->create();
echo $order->id, "\n", Parcel::with('order')->where('order_id', $order->id)->first()->order->id, "\n";
echo $order->load('parcels')->toJson(), "\n";    // numbers; for JavaScript, $casts = ['id' => 'string']
Order::insert(array_fill(0, 100, ['item' => 'coffee']));
