// Diesel: ids are i64.  Inserts name their columns and leave out id.  serde_json writes ids as numbers.
use diesel::prelude::*;

diesel::table! { orders (id) { id -> BigInt, item -> Text, } }
diesel::table! { parcels (id) { id -> BigInt, order_id -> BigInt, } }
diesel::joinable!(parcels -> orders (order_id));
diesel::allow_tables_to_appear_in_same_query!(orders, parcels);

#[derive(Queryable, Identifiable, serde::Serialize)]
struct Order { id: i64, item: String }

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut db = PgConnection::establish("")?;
    diesel::connection::SimpleConnection::batch_execute(&mut db, "
        CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text NOT NULL);
        CREATE TABLE parcels (id bigint PRIMARY KEY DEFAULT snowflake_id(), order_id bigint NOT NULL REFERENCES orders)")?;
    let order: Order = diesel::insert_into(orders::table).values(orders::item.eq("tea")).get_result(&mut db)?;
    diesel::insert_into(parcels::table).values(parcels::order_id.eq(order.id)).execute(&mut db)?;
    let joined: i64 = parcels::table.inner_join(orders::table).select(orders::id).first(&mut db)?;
    println!("{}\n{}\n{}", order.id, joined, serde_json::to_string(&order)?);
    diesel::insert_into(orders::table).values(vec![orders::item.eq("coffee"); 100]).execute(&mut db)?;
    Ok(())
}
