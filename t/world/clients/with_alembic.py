# SQLAlchemy, continuing its example: the comparison of alembic --autogenerate, and the number of statements of add_all()
import os, runpy, sys
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import DefaultClause, MetaData, create_engine, event, text
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

# the extension in a schema of its own, and that schema named or not
with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    connection.exec_driver_sql(f"CREATE DATABASE {sys.argv[1]}")
url, path = engine.url.set(database=sys.argv[1]), {"options": "-csearch_path=public,ids"}
with create_engine(url, connect_args=path).connect() as connection:
    connection.exec_driver_sql("CREATE SCHEMA ids; CREATE EXTENSION snowflake SCHEMA ids")
    Order.metadata.create_all(connection)
    for default, differs in ("snowflake_id()", False), ("ids.snowflake_id()", True):
        for table in Order.metadata.tables.values():
            table.c.id.server_default = DefaultClause(text(default))
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        check(f"a default of {default} differs: {differs}", bool(compare_metadata(context, Order.metadata)) == differs)

statements = []
event.listen(engine, "before_cursor_execute", lambda conn, cursor, sql, *rest: statements.append(sql))
with Session(engine) as session:
    session.add_all(Order(item="milk") for _ in range(100))
    session.commit()
check("add_all() takes a statement for each row", sum("INSERT" in sql for sql in statements) == 100)
