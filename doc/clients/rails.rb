# Rails.  A migration makes the same calls; t.references makes a plain bigint.
require "active_record"
ActiveRecord::Base.establish_connection(adapter: "postgresql")
# For an initializer: from 7.1 to 8.0, schema.rb would create this schema before the extension does.
ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(Module.new { def schema_names = super - ["snowflake_internal"] })

ActiveRecord::Migration.verbose = false
ActiveRecord::Schema.define do
  create_table(:orders, id: :bigint, default: -> { "snowflake_id()" }) { |t| t.text :item }
  create_table(:parcels, id: :bigint, default: -> { "snowflake_id()" }) do |t|
    t.references :order, foreign_key: true
  end
end

class Order < ActiveRecord::Base; has_many :parcels; end
class Parcel < ActiveRecord::Base; belongs_to :order; end

order = Order.create!(item: "tea", parcels: [Parcel.new])
puts order.id
puts Parcel.includes(:order).find_by!(order_id: order.id).order.id
puts order.to_json    # a number; for JavaScript, "id": id.to_s
Order.insert_all(Array.new(100) { { item: "coffee" } })
