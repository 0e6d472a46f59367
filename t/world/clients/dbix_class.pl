# DBIx::Class, continuing its example: classes that Schema::Loader makes from the
# database
use strict;
use warnings;
use DBIx::Class::Schema::Loader;
use FindBin;

sub check
{
	my ($name, $condition) = @_;
	printf "%s - %s\n", $condition ? 'ok' : 'not ok', $name;
	return;
}

do "$FindBin::RealBin/../../../doc/clients/dbix_class.pl" or die $@;
DBIx::Class::Schema::Loader->naming('current');
my $db =
  DBIx::Class::Schema::Loader->connect('dbi:Pg:', undef, undef, { quote_names => 1 }, { db_schema => 'public' });
check('the loader lists nothing of the extension', join(' ', sort $db->sources) eq 'Order Parcel');
my $info = $db->source('Order')->column_info('id');
check('its classes have the default',
	ref $info->{default_value} && ${ $info->{default_value} } eq 'snowflake_id()' && !$info->{is_auto_increment});
my $order = $db->resultset('Order')->create({ item => 'milk' });
check('rows get their ids from the server', $db->resultset('Order')->search({ item => 'milk' })->first->id > 2**62);
check('create() returns them', $db->resultset('Order')->find($order->id)->item eq 'milk');

Shop::Order->add_columns('+id' => { is_auto_increment => 1 });
Shop->register_class(Order => 'Shop::Order');
my $sql = Shop->connect('dbi:Pg:')->deployment_statements('PostgreSQL');
print $sql;
check('is_auto_increment would make a sequence', $sql =~ /bigserial/i);
