# Sequel: bigint keys, and a default that no tool mistakes for a sequence's.
require "sequel"
DB = Sequel.connect(adapter: "postgres", host: ENV["PGHOST"], database: ENV["PGDATABASE"], user: ENV["PGUSER"])

DB.create_table(:orders) do
  column :id, :bigint, primary_key: true, default: Sequel.function(:snowflake_id)
  column :item, :text
end
DB.create_table(:parcels) do
  column :id, :bigint, primary_key: true, default: Sequel.function(:snowflake_id)
  foreign_key :order_id, :orders, type: :bigint
end

Sequel::Model.plugin :json_serializer
class Order < Sequel::Model; one_to_many :parcels; end
class Parcel < Sequel::Model; many_to_one :order; end

order = Order.create(item: "tea")
order.add_parcel(Parcel.new)
puts order.id
puts Parcel.where(order_id: order.id).eager(:order).all.first.order.id
puts order.to_json(include: :parcels)    # numbers
DB[:orders].multi_insert(Array.new(100) { { item: "coffee" } })
