import { createSocket } from "node:dgram";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { NameFilePaths } from "#src/run/resolve-host.ts";
import { createTempFolders } from "./temp-folders.ts";

export interface NameRecord {
  readonly address: string;
  readonly ttlS: number;
}

/** What the server knows about a name: IPv4 addresses, or that it must not answer, or refuse. */
export type KnownName = readonly NameRecord[] | "silent" | "refused";

const typeA = 1;
const noSuchName = 3;
const refused = 5;

/**
 * A real name server over UDP, on loopback unless an address is given. It has only IPv4 addresses.
 * Names that it does not know do not exist.
 */
export async function startNameServer(
  known: Readonly<Record<string, KnownName>> = {},
  { host = "127.0.0.1", port = 0 }: { readonly host?: string; readonly port?: number } = {},
) {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  const names = new Map(Object.entries(known));
  const folders = createTempFolders();
  socket.on("message", (query, from) => {
    const { name, type, end } = questionOf(query);
    if (type === typeA) asked.push(name);
    const found = names.get(name);
    if (found === "silent") return;
    const answers = type === typeA && found !== "refused" ? (found ?? []) : [];
    const code = found === "refused" ? refused : found ? 0 : noSuchName;
    socket.send(answerTo(query.subarray(0, end), answers, code), from.port, from.address);
  });
  socket.bind(port, host);
  await once(socket, "listening");
  const server = `${host}:${socket.address().port}`;
  return {
    /** The names for which IPv4 addresses were asked for, in order. */
    asked: asked as readonly string[],
    set: (name: string, value: KnownName) => void names.set(name, value),
    /** Files that name this server; `resolver` and `hosts` are added to them. */
    files({ resolver = "", hosts = "" } = {}): NameFilePaths {
      const folder = folders.create();
      const paths = { hosts: join(folder, "hosts"), resolver: join(folder, "resolv.conf") };
      writeFileSync(paths.hosts, hosts);
      writeFileSync(paths.resolver, `nameserver ${server}\n${resolver}`);
      return paths;
    },
    async [Symbol.asyncDispose]() {
      socket.close();
      await once(socket, "close");
      folders.remove();
    },
  };
}

const headerBytes = 12;

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = headerBytes;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** RFC 1035, section 4.1: the header, the question as it came, and the records. */
function answerTo(query: Buffer, records: readonly NameRecord[], code: number): Buffer {
  const head = Buffer.from(query);
  head.writeUInt16BE(0x8180 | code, 2);
  head.writeUInt16BE(records.length, 6);
  head.fill(0, 8, headerBytes);
  const bodies = records.map(({ address, ttlS }) => {
    // A pointer to the name in the question, type A, class IN.
    const record = Buffer.from([0xc0, headerBytes, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    record.writeUInt32BE(ttlS, 6);
    record.set(address.split(".").map(Number), 12);
    return record;
  });
  return Buffer.concat([head, ...bodies]);
}
