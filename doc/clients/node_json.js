// node-postgres on Node.js 22 or later: if a number cannot hold a whole number in json or
// jsonb, return it as a string, as the driver does for bigint columns.
const { types } = require('pg');

JSON.parse('0', (key, value, context) => {
  if (!context) throw new Error('node_json.js needs Node.js 22 or later');
});
const parse = (text) => JSON.parse(text, (key, value, { source }) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? source : value);
types.setTypeParser(types.builtins.JSON, parse);
types.setTypeParser(types.builtins.JSONB, parse);
