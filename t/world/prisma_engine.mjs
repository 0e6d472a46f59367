// Run Prisma's schema engine in its build for WebAssembly, which is on npm.  The engine
// of "prisma migrate" is a separate download.
//
// usage: node prisma_engine.mjs diff|push

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import * as engineModule from '@prisma/schema-engine-wasm/schema_engine_bg';
import pg from 'pg';

// The engine reads columns of type "char", which adapter-pg refuses: call them text.
const { addFields } = pg.Result.prototype;
pg.Result.prototype.addFields = function (fields) {
  for (const field of fields) if (field.dataTypeID === pg.types.builtins.CHAR) field.dataTypeID = pg.types.builtins.TEXT;
  addFields.call(this, fields);
};

const path = createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm/schema_engine_bg').replace(/js$/, 'wasm');
const { instance } = await WebAssembly.instantiate(readFileSync(path), { './schema_engine_bg.js': engineModule });
engineModule.__wbg_set_wasm(instance.exports);
instance.exports.__wbindgen_start();

const files = [{ path: 'schema.prisma', content: readFileSync('schema.prisma', 'utf8') }];
const filters = { externalTables: [], externalEnums: [] };
const engine = await engineModule.SchemaEngine.new({ datamodels: files.map((file) => [file.path, file.content]) },
  () => {}, bindMigrationAwareSqlAdapterFactory(new PrismaPg({ connectionString: process.env.DATABASE_URL })));
const commands = {
  diff: async () => (await engine.diff({ from: { tag: 'schemaDatasource', files, configDir: '.' },
    to: { tag: 'schemaDatamodel', files }, script: true, exitCode: null, filters })).stdout,
  push: () => engine.schemaPush({ force: false, schema: { files }, filters }),
};
console.log(await commands[process.argv[2]]());
process.exit(0);
