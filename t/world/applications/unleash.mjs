// Unleash, by its APIs: add features, with a strategy each, and a token; a client gets them.
// Prints what the client gets.
const [, , modules, round] = process.argv
const { default: { types } } = await import(`${modules}/pg/lib/index.js`)
types.setTypeParser(20, Number)
const { start } = await import(`${modules}/unleash-server/dist/lib/server-impl.js`)
const { PGHOST: host, PGUSER: user, PGDATABASE: database, PORT: port } = process.env

async function main () {
  const { server } = await start({
    db: { host, user, database, ssl: false }, server: { port: Number(port), host: '127.0.0.1' },
    authentication: { type: 'none' }, versionCheck: { enable: false }, telemetry: false, logLevel: 'error'
  })
  const call = async (path, body, headers) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/${path}`, body
      ? { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
      : { headers })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer.json().catch(() => null)
  }
  const features = 'admin/projects/default/features'
  for (let i = 0; i < 5; i++) {
    const name = `feature-${round}-${i}`
    await call(features, { name, type: 'release' })
    await call(`${features}/${name}/environments/development/strategies`, { name: 'default', parameters: {} })
    await call(`${features}/${name}/environments/development/on`, {}).catch(() => null)
  }
  const token = await call('admin/api-tokens', { tokenName: `token-${round}`, type: 'client', environment: 'development', projects: ['*'] })
  const seen = await call('client/features', null, { Authorization: token.secret })
  const listed = await call('admin/projects/default/features')
  console.log(`${listed.features.length} features, ${seen.features.filter(f => f.strategies.length > 0).length} with strategies`)
  server.close()
  process.exit(0)
}
main().catch(error => { console.error(error); process.exit(1) })
