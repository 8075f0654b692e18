import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readSources } from "../harness/source-facts.ts";
import { findSwitches, findUndocumented } from "./documented-interfaces.ts";

const sources = new Map([...readSources("src"), ...readSources("packages/transcode/src")]);

/** What starts a process: a script of the shell and one of Node. */
const starters = ["keyrun", "bin/keyrun.mjs"].map(
  (path) => [path, readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")] as const,
);

/** What is left, and why. */
const left: Readonly<Record<string, string>> = {
  "src/run/grpc-channels.ts has ._isSecure": "the library's credentials can be wrapped in no other way",
  "src/run/grpc-channels.ts has ._createSecureConnector":
    "the same: it closes connections that are not ready",
  "src/server/connection/front-server.ts assigns to server": "Node documents this bound as a property alone",
  "src/server/connection/http1-server.ts assigns to server": "the same: the bounds of headers and requests",
};

test("packages and Node are used by their documented interface alone, but for what is named here", () => {
  expect(sources.size).toBeGreaterThan(300);
  const found = [...findUndocumented(sources), ...starters.flatMap((each) => findSwitches(...each))];
  const isLeft = (each: string) => Object.keys(left).some((known) => each.startsWith(known));
  expect(found.filter((each) => !isLeft(each))).toEqual([]);
  expect(Object.keys(left).filter((known) => !found.some((each) => each.startsWith(known)))).toEqual([]);
});

describe("each way beyond it is found", () => {
  const ways: Readonly<Record<string, string>> = {
    "the insides of undici": 'import Client from "undici/lib/dispatcher/client.js";',
    "its symbols": 'import symbols from "undici/lib/core/symbols.js";',
    "the insides of grpc-js": 'import call from "@grpc/grpc-js/build/src/subchannel-call.js";',
    "a class replaced in a library": 'import lib from "undici";\nObject.assign(lib, { Client: Mine });',
    "an option of a client that was made":
      'import { MongoClient } from "mongodb";\nconst client = new MongoClient(uri);\nObject.assign(client.options, { minPoolSizeCheckFrequencyMS: 5_000 });',
    "what a metric of the library prints":
      'import { Histogram } from "@prometheus-io/client";\n  const metric = new Histogram(options);\n  metric.getForPromString = print;',
    "a method of Protobuf-ES": "BinaryReader.prototype.tag = boundedTag;",
    "a stream's push": "stream.push = (bytes) => late.append(bytes);",
    "a socket's write": "socket.write = (chunk) => write(rest(chunk));",
    "a parser's callback by symbol": "const parser = Object.getOwnPropertySymbols(socket);",
    "an object that pretends to be a session": "setTimeout.call(Object.create(session, alive), 0);",
    "an option that Node does not document": "Object.assign(server, { httpAllowHalfOpen: true });",
    "a silenced warning": "process.emitWarning = () => {};",
    "a native call": 'process.getBuiltinModule("node:ffi");',
    malloc_trim: "libc.functions.malloc_trim(0n);",
    "a script beside the heap": 'new Script("");',
    "a flag of V8": 'setFlagsFromString("--heap-growing-percent=30");',
    "a threshold of malloc": 'const start = "MALLOC_MMAP_THRESHOLD_=131072 node";',
    "a private property": "const options = connector._options;",
  };

  test.each(Object.entries(ways))("%s", (_, text) => {
    expect(findUndocumented(new Map([["src/a.ts", text]]))).not.toEqual([]);
  });

  test("and what is documented is none of them", () => {
    const text =
      'import { create } from "@bufbuild/protobuf";\nimport { timestampNow } from "@bufbuild/protobuf/wkt";';
    expect(findUndocumented(new Map([["src/a.ts", text]]))).toEqual([]);
  });
});
