# Django, continuing its example: migrations, and models that do not define their key
import os, sys
sys.path[:0] = os.path.dirname(os.path.abspath(__file__)) + "/../../../doc/clients", os.getcwd()
import django_model
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection, models
from django.db.migrations.exceptions import MigrationSchemaMissing
from django.db.migrations.recorder import MigrationRecorder

def check(name, condition):
    print("ok" if condition else "not ok", "-", name)

# on a fresh database, which gets the extension from a migration
with connection.cursor() as cursor:
    cursor.execute("DROP TABLE parcels, orders; DROP EXTENSION snowflake")
os.makedirs("shop/migrations")
for directory in "shop", "shop/migrations":
    open(directory + "/__init__.py", "w").close()
with open("shop/apps.py", "w") as file:
    file.write('''
from django.apps import AppConfig
class ShopConfig(AppConfig):
    name = "shop"
    default_auto_field = "django_model.SnowflakeField"
''')
with open("shop/migrations/0001_extension.py", "w") as file:
    file.write('''
from django.contrib.postgres.operations import CreateExtension
from django.db import migrations
class Migration(migrations.Migration):
    initial = True
    operations = [CreateExtension("snowflake")]
''')
apps.set_installed_apps(["shop"])

settings.DEFAULT_AUTO_FIELD = "django_model.SnowflakeField"
try:
    call_command("migrate")
    check("the setting DEFAULT_AUTO_FIELD fails before the extension is there", False)
except MigrationSchemaMissing as error:
    check("the setting DEFAULT_AUTO_FIELD fails before the extension is there", "snowflake_id() does not exist" in str(error))
settings.DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
MigrationRecorder._migration_class = None

class Cup(models.Model):
    order = models.ForeignKey(django_model.Order, models.CASCADE)
    class Meta: app_label, db_table = "shop", "cups"

call_command("makemigrations", "shop")
call_command("migrate")
try:
    call_command("makemigrations", check_changes=True)
    check("makemigrations finds nothing to change", True)
except SystemExit:
    check("makemigrations finds nothing to change", False)
with connection.cursor() as cursor:
    cursor.execute("""SELECT attrelid::regclass, attname, format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid)
        FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attnum > 0 AND attname ~ 'id$' AND attrelid IN ('cups'::regclass, 'orders'::regclass) ORDER BY attrelid::regclass::text, attname""")
    check("migrate creates the default, that of the application, too", cursor.fetchall() == [
        ("cups", "id", "bigint", "snowflake_id()"), ("cups", "order_id", "bigint", None), ("orders", "id", "bigint", "snowflake_id()")])
cup = Cup.objects.create(order=django_model.Order.objects.create(item="tea"))
check("and rows get ids", cup.id > 2 ** 62 and cup.order_id > 2 ** 62)
