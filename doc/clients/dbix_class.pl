# DBIx::Class: retrieve_on_insert reads the key by RETURNING; is_auto_increment would make a bigserial.
use v5.36;
use JSON::PP;

package Shop::Order { use base 'DBIx::Class::Core'; }
package Shop::Parcel { use base 'DBIx::Class::Core'; }
package Shop { use base 'DBIx::Class::Schema'; }

my %id = (data_type => 'bigint', default_value => \'snowflake_id()', retrieve_on_insert => 1);
Shop::Order->table('orders');
Shop::Order->add_columns(id => {%id}, item => { data_type => 'text' });
Shop::Parcel->table('parcels');
Shop::Parcel->add_columns(id => {%id}, order_id => { data_type => 'bigint' });
$_->set_primary_key('id') for 'Shop::Order', 'Shop::Parcel';
Shop::Parcel->belongs_to(order => 'Shop::Order', 'order_id');
Shop->register_class($_ => "Shop::$_") for 'Order', 'Parcel';

my $db = Shop->connect('dbi:Pg:', undef, undef, { quote_names => 1 });
$db->deploy;    # by SQL::Translator
my $order = $db->resultset('Order')->create({ item => 'tea' });
my $parcel = $db->resultset('Parcel')->create({ order => $order });
my $found = $db->resultset('Parcel')->search({}, { prefetch => 'order' })->first;
print $order->id, "\n", $found->order->id, "\n", encode_json({ $order->get_columns }), "\n";    # a number
$db->resultset('Order')->populate([ map { { item => 'coffee' } } 1 .. 100 ]);
