// The schema of Unleash, by its own migrations
const { migrateDb } = await import(process.argv[2])
const { PGHOST: host, PGUSER: user, PGDATABASE: database } = process.env
await migrateDb({ db: { driver: 'pg', host, user, database, schema: 'public' } })
process.exit()
