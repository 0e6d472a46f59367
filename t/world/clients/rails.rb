# Rails, continuing its example: schemas that are dumped and loaded, fixtures, sequences
# that are reset, and keys of tables that do not define them

require "active_record"
require "active_record/connection_adapters/postgresql_adapter"
# like an initializer, which is read once
ActiveRecord::ConnectionAdapters::PostgreSQLAdapter::NATIVE_DATABASE_TYPES[:primary_key] = "bigint PRIMARY KEY DEFAULT snowflake_id()"
require_relative "../../../doc/clients/rails"
require "fileutils"
require "stringio"

def check(name, condition)
  puts "#{condition ? 'ok' : 'not ok'} - #{name}"
end

def connection
  ActiveRecord::Base.connection
end

def error
  connection.transaction(requires_new: true) { yield }
  nil
rescue ActiveRecord::StatementInvalid => e
  e.message
end

def new_id
  Order.create!(item: "milk").id
end

# print what db:schema:dump writes
def dump
  out = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection_pool, out)
  out.string
end

def column_default(table)
  connection.select_value("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = '#{table}'::regclass")
end

# schema.rb, in the same database
schema = dump
check "schema.rb has the default", schema.include?('create_table "orders", id: :bigint, default: -> { "snowflake_id()" }')
check "schema.rb has the extension", schema.include?('enable_extension "snowflake"')
check "schema.rb has nothing else of the extension", schema.scan(/snowflake/).size == 3
check "without the example's line, it has more", connection.method(:schema_names).super_method.call.include?("snowflake_internal")
before = ENV["AHEAD"].to_i
eval(schema)
check "db:schema:load works in the same database", Order.count == 0 && dump == schema
check "new ids are still ahead of the clock", new_id > before

# in another database
def in_new_database(name)
  config = { adapter: "postgresql", database: name }
  connection.execute("CREATE DATABASE #{name}")
  ActiveRecord::Base.establish_connection(config)
  yield
ensure
  ActiveRecord::Base.establish_connection(adapter: "postgresql")
end

in_new_database("rails_2") do
  eval(schema)
  check "db:schema:load works in another database", dump == schema && new_id > before
end

# fixtures and sequences: Rails takes "nextval" in the name of the function for a
# sequence's
FileUtils.mkdir_p("fixtures")
File.write("fixtures/orders.yml", "green:\n  item: green tea\n")
Order.delete_all
check "fixtures can be loaded", !error { ActiveRecord::FixtureSet.create_fixtures("fixtures", "orders") } && Order.first.item == "green tea"
check "reset_pk_sequence! does no harm", !error { connection.reset_pk_sequence!("orders") } && new_id > before
connection.execute("ALTER TABLE orders ALTER id SET DEFAULT snowflake_nextval()")
connection.schema_cache.clear!
ActiveRecord::FixtureSet.reset_cache
check "fixtures need a name without nextval", error { ActiveRecord::FixtureSet.create_fixtures("fixtures", "orders") }
check "reset_pk_sequence! needs a name without nextval", error { connection.reset_pk_sequence!("orders") }
connection.execute("ALTER TABLE orders ALTER id SET DEFAULT snowflake_id()")

# new tables that do not define their key
ActiveRecord::Schema.define do
  create_table(:teas) { |t| t.text :name }
  create_table(:cups) { |t| t.references :tea, foreign_key: true }
end
class Tea < ActiveRecord::Base; has_many :cups; end
class Cup < ActiveRecord::Base; belongs_to :tea; end
cup = Tea.create!(name: "green").cups.create!
check "NATIVE_DATABASE_TYPES gives new tables the default", column_default("teas") == "snowflake_id()" && column_default("cups") == "snowflake_id()"
check "and their rows get ids", cup.tea_id > before && cup.id > cup.tea_id
check "schema.rb has that default", dump.include?('create_table "cups", id: :bigint, default: -> { "snowflake_id()" }')

# without the extension
connection.disable_extension("snowflake", force: :cascade)
check "disable_extension drops all of it", connection.select_value("SELECT to_regnamespace('snowflake_internal')").nil?
eval(schema)
check "ids after that are still ahead of the clock", new_id > before

# the migration of the guide, as the Migrator runs it
in_new_database("rails_4") do
  connection.execute("CREATE TABLE teas (id serial PRIMARY KEY, name text);
    CREATE TABLE cups (id bigserial PRIMARY KEY, tea_id integer REFERENCES teas);
    INSERT INTO teas (name) VALUES ('green'); INSERT INTO cups (tea_id) VALUES (1)")
  FileUtils.mkdir_p("migrations")
  guide = File.read(File.expand_path("../../../doc/guide.md", __dir__))
  File.write("migrations/1_convert_keys.rb", guide[/^```ruby of a migration\n(.*?)^```$/m, 1])
  notices = []
  connection.execute("SET client_min_messages = notice")
  connection.raw_connection.set_notice_processor { |notice| notices << notice }
  ActiveRecord::MigrationContext.new("migrations").up
  check "the migration converts all keys", column_default("teas") == "snowflake_id()" && column_default("cups") == "snowflake_id()"
  check "and reports each step", notices.grep(/step 1 took/).size == 1
  Tea.reset_column_information
  Cup.reset_column_information
  check "and the models stay as they are", Cup.first.tea == Tea.first && Tea.first.id == 1 && Tea.create!(name: "black").cups.create!.tea_id > before
end
