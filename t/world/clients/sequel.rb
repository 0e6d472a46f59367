# Sequel, continuing its example: the schema that it dumps

require_relative "../../../doc/clients/sequel"

def check(name, condition)
  puts "#{condition ? 'ok' : 'not ok'} - #{name}"
end

def column_default(table)
  DB["SELECT pg_get_expr(adbin, adrelid) AS d FROM pg_attrdef WHERE adrelid = '#{table}'::regclass"].get(:d)
end

check "Sequel finds no sequence", DB.primary_key_sequence(:orders).nil?
check "reset_primary_key_sequence does nothing", DB.reset_primary_key_sequence(:orders).nil?

DB.extension :schema_dumper
before = ENV["AHEAD"].to_i
puts DB.dump_schema_migration
check "a dump for any database loses the default", !DB.dump_schema_migration.include?("snowflake")
migration = DB.dump_schema_migration(same_db: true)
puts migration
check "a dump for the same database has it", migration.scan("snowflake_id()").size == 2
check "and nothing else of the extension", migration.scan("snowflake").size == 2
DB.drop_table(:parcels, :orders)
Sequel.extension :migration
eval(migration).apply(DB, :up)
check "that dump can be loaded", column_default(:orders) == "snowflake_id()" && DB.dump_schema_migration(same_db: true) == migration
check "new ids are still ahead of the clock", Order.create(item: "milk").id > before
