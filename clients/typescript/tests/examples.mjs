/**
 * Collects the examples of the documentation: examples.mjs PACKAGE DOCS writes a program of each text to the directory examples. What a line
 * prints is in a comment after it; examples.test.ts compares. The examples of a text are one program.
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [, , source, docs] = process.argv;
const imports = 'import { AlreadyExistsError, Client, milliseconds, type Spec } from "@rousehq/rouse";\nimport { Handlers } from "@rousehq/rouse/handlers";\nimport { verify } from "@rousehq/rouse/webhooks";\n';
const helper = 'import { DevServer } from "@rousehq/rouse/testing";\n';

/** Returns the blocks of TypeScript of a text. */
const blocks = (text) => [...text.matchAll(/^```ts\n([^]*?)^```/gm)].map((found) => found[1]).join("\n");
/** Returns the text of the comments of a file. */
const comments = (file) => readFileSync(join(source, "src", file), "utf8").replace(/^ *\* ?/gm, "");

mkdirSync("examples", { recursive: true });
for (const [name, head, text] of [
  ["readme", "", blocks(readFileSync(join(source, "README.md"), "utf8"))],
  ["clients", "", blocks(readFileSync(join(docs, "clients.md"), "utf8"))],
  ["code", imports + helper, ["client.ts", "wire.ts", "webhooks.ts", "handlers.ts", "testing.ts"].map((file) => blocks(comments(file))).join("\n")],
]) {
  const start = 'import { DevServer as Dev_ } from "@rousehq/rouse/testing";\nconst dev_ = await Dev_.start();\nconst server = dev_.address;\n';
  writeFileSync(join("examples", name + ".ts"), `${head}${start}${text}\nawait dev_.stop();\n`);
}
