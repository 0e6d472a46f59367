# shellcheck shell=bash
# Functions of schemas.sh and applications.sh.  To be sourced by bash.

query()
{
	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"
}

# Convert the keys of a schema of the database, but those to exclude, as the guide says: drop
# what depends on columns, convert, and create that again from what pg_dump has written.
convert()
{
	local schema=$1 name=$PGDATABASE adopted before
	local adopt="CALL snowflake_adopt_all('$schema', excluding => '{$2}', widen_columns => '{*}'${3:+, $3}"
	local views="SELECT (SELECT count(*) FROM pg_rewrite WHERE oid >= 16384), (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)"

	query --command='CREATE EXTENSION snowflake' --command='CREATE EXTENSION snowflake_adopt'
	before=$(query --command="$views")
	pg_dump --format=custom --schema-only --file="$name.schema" "$name"
	# the error has a line for each object
	{ query --command="$adopt, dry_run => true)" 2>&1 || true; } |
		sed -n '/ depends on /{s/^DETAIL:  //; s/ depends on .*//; s/^\(rule\|trigger\|policy\) \(.*\) on \(table\|view\|materialized view\) /\1 \2 ON /; s/.*/DROP & CASCADE;/p}' >"$name.drop"
	if ! query --file="$name.drop" --command="$adopt)" >"$name.log" 2>&1; then
		sed 's/^/# /' "$name.drop" "$name.log"
		check "$name: the keys can be adopted" ""
		return 1
	fi
	adopted=$(query --command="SELECT count(*) FROM pg_attrdef JOIN pg_class ON pg_class.oid = adrelid
		WHERE pg_get_expr(adbin, adrelid) = 'snowflake_id()' AND relnamespace = '$schema'::regnamespace")
	check "$name: $adopted keys are adopted" "$adopted" -gt 0
	pg_restore --list "$name.schema" | grep -E ' (VIEW|MATERIALIZED VIEW|RULE|TRIGGER|POLICY|FUNCTION) ' >"$name.list" || true
	# there are errors for what is still there
	pg_restore --dbname="$name" --use-list="$name.list" "$name.schema" 2>/dev/null || true
	check "$name: what was dropped is there again" "$(query --command="$views")" = "$before"
	query --command='DROP EXTENSION snowflake_adopt'
}
