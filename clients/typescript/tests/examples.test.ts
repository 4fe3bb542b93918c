/** The examples of the README, of docs/clients.md and of the comments run against a development server, and print what they claim. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";

for (const [name, least] of [["readme", 12], ["clients", 1], ["code", 35]] as const) {
  test(`the examples of ${name}`, { concurrency: true }, () => {
    const text = readFileSync(new URL(`../examples/${name}.ts`, import.meta.url), "utf8");
    const want = [...text.matchAll(/^ *console\.log\(.*\); \/\/ (.*)$/gm)].map((found) => found[1]);
    const got = execFileSync(process.execPath, [`built/examples/${name}.js`], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n");
    assert.deepEqual(got, want);
    assert.ok(want.length >= least, `${want.length} lines are compared`);
  });
}
