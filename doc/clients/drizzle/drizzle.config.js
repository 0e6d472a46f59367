export default {
  dialect: 'postgresql',
  schema: './schema.mjs',
  dbCredentials: { url: process.env.DATABASE_URL },
};
