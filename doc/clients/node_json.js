// node-postgres on Node.js 22 or later: whole numbers in json and jsonb that a
// number cannot hold come as strings, as those of bigint columns do.
const { types } = require('pg');

const parse = (text) => JSON.parse(text, (key, value, { source }) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? source : value);
types.setTypeParser(types.builtins.JSON, parse);
types.setTypeParser(types.builtins.JSONB, parse);
