// Runs Keyrun's main module, of a clone or of a package, on a Node that is new enough. `./keyrun`
// begins here. This file is plain JavaScript, because an old Node must be able to read it.
import { existsSync } from "node:fs";
import { keepCompiledCode } from "./compile-cache.mjs";
import { isNewEnough, refuseThisNode } from "./needed-node.mjs";

if (!isNewEnough(process.versions.node)) refuseThisNode();
keepCompiledCode();
const source = new URL("../src/main.ts", import.meta.url);
const main = existsSync(source) ? source : new URL("../dist/src/main.js", import.meta.url);
await import(main.href);
