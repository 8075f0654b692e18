#!/usr/bin/env node
// Runs Keyrun's main module, of a clone or of a package: on this Node if it is new enough, else on
// the one that npm installed with the clone. `./keyrun` begins here. This file is plain JavaScript,
// because an old Node must be able to read it.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { keepCompiledCode } from "./compile-cache.mjs";
import { isNewEnough, refuseThisNode, stop } from "./needed-node.mjs";

const source = new URL("../src/main.ts", import.meta.url);
const main = existsSync(source) ? source : new URL("../dist/src/main.js", import.meta.url);

if (isNewEnough(process.versions.node)) {
  keepCompiledCode();
  await import(main.href);
} else {
  const node = packagedNode();
  if (node === undefined) refuseThisNode();
  runOn(node);
}

/** The Node of the optional packages; undefined if there is none for this machine. */
function packagedNode() {
  try {
    const name = `node-${process.platform}-${process.arch}`;
    const path = createRequire(import.meta.url)
      .resolve(`${name}/package.json`)
      .replace(/package\.json$/, "bin/node");
    return existsSync(path) ? path : undefined;
  } catch {
    return undefined;
  }
}

function runOn(node) {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
  const pass = (signal) => child.kill(signal);
  for (const signal of signals) process.on(signal, pass);
  // `detached` gives the server a process group of its own. A terminal sends Ctrl-C to a group, and
  // this process passes it on: the server would get it twice, and a second signal means "stop
  // without waiting".
  // The flags and the setting of malloc are those of ./keyrun, which says why.
  const flags = ["--max-semi-space-size=8", "--initial-old-space-size=100"];
  const child = spawn(node, [...flags, fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: "inherit",
    detached: true,
    env: { MALLOC_MMAP_THRESHOLD_: "131072", ...process.env },
  });
  child.on("error", (error) => {
    // "Not found" for a file that exists means that its libc is missing: the packages need glibc.
    stop(
      `the packaged Node can't run here (${error.code}). Install Node 26; the packaged one needs glibc, not musl.`,
    );
  });
  child.on("exit", (code, signal) => {
    // A shell gives this status to a process that a signal ended.
    process.exit(signal === null ? code : 128 + constants.signals[signal]);
  });
}
