module snowflake

go 1.19
