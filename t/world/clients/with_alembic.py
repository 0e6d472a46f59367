# SQLAlchemy and SQLModel, continuing their examples: the comparison of alembic
# --autogenerate, and the number of statements of add_all()
import os, runpy, sys
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, event
from sqlalchemy.orm import Session

def check(name, condition):
    print("ok" if condition else "not ok", "-", name)

example = runpy.run_path(os.path.dirname(__file__) + "/../../../doc/clients/" + sys.argv[1] + ".py")
engine, Order = example["engine"], example["Order"]

def compare(metadata):
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "include_schemas": True})
        return compare_metadata(context, metadata), render_python_code(produce_migrations(context, metadata).upgrade_ops)

diff, script = compare(Order.metadata)
print(script)
check("alembic finds no difference", diff == [])
diff, script = compare(MetaData())
print(script)
check("and lists nothing of the extension, even if the model is empty",
      {d[1].name for d in diff if d[0] == "remove_table"} == {"orders", "parcels"} and "snowflake" not in
      script.replace("snowflake_id()", ""))

statements = []
event.listen(engine, "before_cursor_execute", lambda conn, cursor, sql, *rest: statements.append(sql))
with Session(engine) as session:
    session.add_all(Order(item="milk") for _ in range(100))
    session.commit()
check("add_all() takes a statement for each row", sum("INSERT" in sql for sql in statements) == 100)
