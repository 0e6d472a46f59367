// pgx 5: ids are int64.  Without ",string", JSON would contain numbers.
package main

import "context"
import "encoding/json"
import "fmt"
import "github.com/jackc/pgx/v5"
type Order struct { ID int64 `json:"id,string"`; Item string }
func must[T any](value T, err error) T { if err != nil { panic(err) }; return value }

func main() {
	ctx := context.Background()
	db := must(pgx.Connect(ctx, ""))
	must(db.Exec(ctx, "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text)"))
	must(db.Exec(ctx, "CREATE TABLE parcels (id bigint PRIMARY KEY DEFAULT snowflake_id(), order_id bigint REFERENCES orders)"))
	rows := must(db.Query(ctx, "INSERT INTO orders (item) VALUES ('tea') RETURNING id, item"))
	order := must(pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Order]))
	must(db.Exec(ctx, "INSERT INTO parcels (order_id) VALUES ($1)", order.ID))
	rows = must(db.Query(ctx, "SELECT orders.id FROM parcels JOIN orders ON orders.id = order_id"))
	joined := must(pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64]))
	fmt.Printf("%d\n%d\n%s\n", order.ID, joined, must(json.Marshal(order)))
	coffee := pgx.CopyFromSlice(100, func(int) ([]any, error) { return []any{"coffee"}, nil })
	must(db.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"item"}, coffee))
}
