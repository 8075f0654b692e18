#!/usr/bin/env node
// Runs src/main.ts, which needs Node 24.15 or newer: on this Node if it is one, else on the one that npm
// installed beside Keyrun. It is plain JavaScript, as old Nodes must be able to read it.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { isNewEnough, refuseThisNode, stop } from "./needed-node.mjs";

const main = new URL("../src/main.ts", import.meta.url);

if (isNewEnough) {
  await import(main.href);
} else {
  const node = packagedNode();
  if (node === undefined) refuseThisNode();
  runOn(node);
}

/** The Node of the optional packages, wherever npm put them; undefined where there is none for this machine. */
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
  // In a session of its own: a terminal sends Ctrl-C to the whole group, and with what is passed on here it would
  // arrive twice; to the server a second signal means that it should not wait.
  const child = spawn(node, [fileURLToPath(main), ...process.argv.slice(2)], {
    stdio: "inherit",
    detached: true,
  });
  child.on("error", (error) => {
    // A Node that is there and is "not found" misses its libc: the packages hold one for glibc only.
    stop(
      `the packaged Node can't run here (${error.code}). Install Node 24; the packaged one needs glibc, not musl.`,
    );
  });
  child.on("exit", (code, signal) => {
    // The status that a shell gives to a process ended by a signal.
    process.exit(signal === null ? code : 128 + constants.signals[signal]);
  });
}
