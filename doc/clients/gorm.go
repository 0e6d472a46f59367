// GORM: with autoIncrement, AutoMigrate would make a bigserial; without ",string", JSON would contain numbers.
package main

import "encoding/json"
import "fmt"
import "gorm.io/driver/postgres"
import "gorm.io/gorm"
type Key struct { ID int64 `gorm:"primaryKey;autoIncrement:false;default:snowflake_id()" json:"id,string"` }
type Order struct { Key; Item string; Parcels []Parcel }
type Parcel struct { Key; OrderID int64 `json:",string"`; Order *Order }

func main() {
	db, err := gorm.Open(postgres.Open(""))
	if err == nil { err = db.AutoMigrate(&Order{}, &Parcel{}) }
	if err != nil { panic(err) }
	order, parcel := Order{Item: "tea", Parcels: []Parcel{{}}}, Parcel{}
	db.Create(&order)
	db.Preload("Order").First(&parcel, "order_id = ?", order.ID)
	text, _ := json.Marshal(order)
	fmt.Printf("%d\n%d\n%s\n", order.ID, parcel.Order.ID, text)
	many := make([]Order, 100)
	for i := range many { many[i].Item = "coffee" }
	db.CreateInBatches(many, 1000)
}
