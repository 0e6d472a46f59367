// Directus, by its REST API: in the first round make two collections, then add articles, with a
// comment each.  Prints how many articles there are, and comments whose article is found.
import { spawn } from 'node:child_process'

const [, , modules, round] = process.argv
const url = `http://127.0.0.1:${process.env.PORT}`
let token

async function call (path, body) {
  const answer = await fetch(`${url}/${path}`, {
    method: body ? 'POST' : 'GET', body: body && JSON.stringify(body),
    headers: { 'Content-Type': 'application/json', ...token && { Authorization: `Bearer ${token}` } }
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()).data
}

async function makeCollection (collection, field) {
  const id = { field: 'id', type: 'integer', schema: { is_primary_key: true, has_auto_increment: true } }
  await call('collections', { collection, schema: {}, fields: [id, { ...field, schema: {} }] })
}

async function main () {
  for (let tries = 0; ; tries++) {
    if (await fetch(`${url}/server/ping`).catch(() => null)) break
    if (tries > 600) throw new Error('Directus does not start')
    await new Promise(resolve => setTimeout(resolve, 200))
  }
  token = (await call('auth/login', { email: process.env.ADMIN_EMAIL, password: process.env.ADMIN_PASSWORD })).access_token
  if (round === '1') {
    await makeCollection('articles', { field: 'title', type: 'string' })
    await makeCollection('comments', { field: 'article', type: 'integer' })
    await call('relations', { collection: 'comments', field: 'article', related_collection: 'articles' })
  }
  for (let i = 0; i < 10; i++) {
    const article = await call('items/articles', { title: `Article ${round}.${i}` })
    await call('items/comments', { article: article.id })
  }
  const articles = await call('items/articles?limit=-1')
  const comments = await call('items/comments?limit=-1&fields=article.title')
  console.log(`${articles.length} articles, ${comments.filter(comment => comment.article.title).length} comments`)
}

const server = spawn(process.execPath, [`${modules}/directus/cli.js`, 'start'], { stdio: ['ignore', 'ignore', 'inherit'] })
main().catch(error => { console.error(error); process.exitCode = 1 }).finally(() => server.kill())
