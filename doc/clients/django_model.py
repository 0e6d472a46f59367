import json, os, django
from django.conf import settings
from django.db import connection, models

# Derived from BigAutoField, so that foreign keys to it are bigint.
class SnowflakeField(models.BigAutoField):
    def db_type(self, connection): return "bigint DEFAULT snowflake_id()"
    def db_type_suffix(self, connection): return None    # it would be an identity column as well

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}})
django.setup()
class Order(models.Model):
    id, item = SnowflakeField(primary_key=True), models.TextField()
    class Meta: app_label, db_table = "shop", "orders"
class Parcel(models.Model):
    id, order = SnowflakeField(primary_key=True), models.ForeignKey(Order, models.CASCADE)
    class Meta: app_label, db_table = "shop", "parcels"

with connection.schema_editor() as editor:    # what a migration does
    for model in Order, Parcel: editor.create_model(model)
order = Order.objects.create(item="tea")
Parcel.objects.create(order=order)
print(order.id, Parcel.objects.select_related("order").get().order.id, json.dumps(Order.objects.values().get()), sep="\n")
Order.objects.bulk_create(Order(item="coffee") for _ in range(100))
