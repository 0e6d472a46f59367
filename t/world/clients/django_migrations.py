# Django, continuing its example: migrations, and models that do not define their key
import os, sys
sys.path[:0] = os.path.dirname(os.path.abspath(__file__)) + "/../../../doc/clients", os.getcwd()
import django_model
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection, models

def check(name, condition):
    print("ok" if condition else "not ok", "-", name)

settings.DEFAULT_AUTO_FIELD = "django_model.SnowflakeField"
class Cup(models.Model):
    order = models.ForeignKey(django_model.Order, models.CASCADE)
    class Meta: app_label, db_table = "shop", "cups"

os.makedirs("shop/migrations")
for directory in "shop", "shop/migrations":
    open(directory + "/__init__.py", "w").close()
apps.set_installed_apps(["shop"])
with connection.cursor() as cursor:
    cursor.execute("DROP TABLE parcels, orders")
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
    check("migrate creates the default, that of DEFAULT_AUTO_FIELD, too", cursor.fetchall() == [
        ("cups", "id", "bigint", "snowflake_id()"), ("cups", "order_id", "bigint", None), ("orders", "id", "bigint", "snowflake_id()")])
cup = Cup.objects.create(order=django_model.Order.objects.create(item="tea"))
check("and rows get ids", cup.id > 2 ** 62 and cup.order_id > 2 ** 62)
