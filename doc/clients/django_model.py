import os, django
from django.conf import settings
from django.db import connection, models

# Derived from BigAutoField, so that foreign keys to it are bigint.
class SnowflakeField(models.BigAutoField):
    def db_type(self, connection):
        return "bigint DEFAULT snowflake_id()"
    def db_type_suffix(self, connection):    # newer versions would make an identity column
        return None

settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}})
django.setup()
Order = type("Order", (models.Model,), {
    "__module__": "shop", "Meta": type("Meta", (), {"app_label": "shop", "db_table": "orders"}),
    "id": SnowflakeField(primary_key=True), "item": models.TextField()})
with connection.schema_editor() as editor:    # what a migration does
    editor.create_model(Order)
print(Order.objects.create(item="tea").id)
