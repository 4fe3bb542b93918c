// Bundles the tests, which are TypeScript, and runs them with Node's own runner.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { build } from "vite";

const here = import.meta.dirname;
const out = here + "/../node_modules/.tests";
const names = readdirSync(here).filter((n) => n.endsWith(".test.ts"));
await build({ root: here, configFile: false, logLevel: "warn", build: { ssr: true, outDir: out, emptyOutDir: true, rolldownOptions: { input: names.map((n) => here + "/" + n) } } });
const files = names.map((n) => out + "/" + n.replace(/\.ts$/, ".js"));
process.exit(spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1);
