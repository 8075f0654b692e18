// A process that holds as much as one key can: runs, streams and uploads that it neither ends nor
// reads. Arguments: port, key, and for each part what it does, how often, and to which apps, with
// commas between their ids.
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { isStreamed, type RunProtocol, runProtocols } from "../protocols.ts";
import { countStatus, noLoad, reportRegularly } from "./report.ts";

const [port = "", key = "", ...parts] = process.argv.slice(2);
const load = noLoad();
const authorization = `Bearer ${key}`;
/** As long as a body may be, with its framing. */
const longText = "x".repeat(1_048_000);
const streamsOfSession = 100;
const ways = runProtocols.public.filter(({ http }) => http.name === "HTTP/2");
const runWays = ways.filter((way) => !isStreamed(way));
const streamWays = ways.filter(isStreamed);

interface To {
  readonly times: number;
  readonly apps: readonly string[];
}

const attacks: Readonly<Record<string, (to: To) => void>> = {
  runs: (to) => requests(to, { ways: runWays, text: longText }),
  "short runs": (to) => requests(to, { ways: runWays, text: "x" }),
  "keyed runs": (to) => requests(to, { ways: runWays, text: longText, isKeyed: true }),
  "blocked runs": (to) => requests(to, { ways: runWays, text: longText, windowBytes: 0 }),
  "dense runs": (to) => requests(to, { ways: runWays, text: "x", isDense: true }),
  streams: (to) => requests(to, { ways: streamWays, text: longText }),
  "short streams": (to) => requests(to, { ways: streamWays, text: "x" }),
  uploads: (to) => requests(to, { ways, text: longText, isCut: true }),
  "compressed uploads": (to) => requests(to, { ways, text: longText, isCompressed: true }),
  "uploads over HTTP/1.1": uploadsOverHttp1,
  pipelines,
};

for (let at = 0; at + 2 < parts.length; at += 3) {
  const [what = "", times = "", ids = ""] = parts.slice(at);
  const attack = attacks[what];
  if (attack === undefined) throw new Error(`no such attack: ${what}`);
  attack({ times: Number(times), apps: ids.split(",") });
}
reportRegularly(load);

interface How {
  readonly ways: readonly RunProtocol[];
  readonly text: string;
  readonly windowBytes?: number;
  readonly isKeyed?: boolean;
  /** Leaves out the last byte. */
  readonly isCut?: boolean;
  readonly isCompressed?: boolean;
  readonly isDense?: boolean;
}

/** Over HTTP/2. Nothing is read beyond the window of a stream. */
function requests({ times, apps }: To, how: How): void {
  const made = new Map<string, ReturnType<typeof askOf>>();
  for (let sent = 0; sent < times; sent += streamsOfSession) {
    const settings = { initialWindowSize: how.windowBytes ?? 65_535 };
    const session = connectHttp2(`http://127.0.0.1:${port}`, { settings });
    session.on("error", () => undefined).on("close", noteClose);
    session.once("remoteSettings", () => {
      load.connections += 1;
      for (let at = sent; at < Math.min(times, sent + streamsOfSession); at += 1) request(at);
    });
    const request = (at: number) => {
      const way = how.ways[at % how.ways.length] as RunProtocol;
      const appId = apps[at % apps.length] ?? "echo";
      const name = `${way.name} ${appId}`;
      const asked = made.get(name) ?? askOf(way, how, appId);
      made.set(name, asked);
      if (session.destroyed) return;
      const idempotency = how.isKeyed ? { "idempotency-key": `key-${process.pid}-${at}` } : {};
      const head = {
        ":method": "POST",
        ":path": asked.path,
        ...asked.headers,
        ...idempotency,
        authorization,
      };
      const stream = session.request(head);
      stream.on("error", () => undefined).on("response", (got) => countStatus(load, String(got[":status"])));
      if (how.isCut) stream.write(asked.body.subarray(0, -1));
      else stream.end(asked.body);
      load.requests += 1;
      load.bytesSent += asked.body.length;
    };
  }
}

function askOf(way: RunProtocol, how: How, appId: string) {
  const dense = { more: Array(19_000).fill(0), ...(way.kind !== "rest" && { appId }), text: how.text };
  const isDense = how.isDense && way.kind !== "grpc" && way.kind !== "grpc-web";
  const message = isDense
    ? { bytes: Buffer.from(JSON.stringify(dense)) }
    : { json: { appId, text: how.text } };
  const { path, headers = {}, body: sent = "" } = way.ask(way.method, message);
  const body = Buffer.from(sent);
  if (!how.isCompressed || way.kind === "rest") return { path, headers, body };
  if (way.kind === "connect" && !isStreamed(way)) {
    return { path, headers: { ...headers, "content-encoding": "gzip" }, body: gzipSync(body) };
  }
  const packed = gzipSync(body.subarray(5));
  const prefix = Buffer.alloc(5);
  prefix[0] = 1;
  // The last byte never comes.
  prefix.writeUInt32BE(packed.length + 1, 1);
  const header = way.kind === "connect" ? "connect-content-encoding" : "grpc-encoding";
  return { path, headers: { ...headers, [header]: "gzip" }, body: Buffer.concat([prefix, packed]) };
}

function socketOf(): Socket {
  const socket = connect({ host: "127.0.0.1", port: Number(port) }).pause();
  return socket
    .on("connect", () => {
      load.connections += 1;
    })
    .on("error", () => undefined)
    .on("close", noteClose);
}

function noteClose(): void {
  load.closed += 1;
}

function http1Run(appId = "echo"): Buffer {
  const body = JSON.stringify({ text: longText });
  const lines = [
    `POST /api/apps/${appId}/run HTTP/1.1`,
    ...["Host: a", `Authorization: ${authorization}`, "Content-Type: application/json"],
    `Content-Length: ${body.length}`,
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body}`);
}

function uploadsOverHttp1({ times, apps }: To): void {
  const bytes = http1Run(apps[0]);
  for (let at = 0; at < times; at += 1) {
    socketOf().write(bytes.subarray(0, -1));
    load.requests += 1;
    load.bytesSent += bytes.length;
  }
}

/** Ten runs behind each other on a connection, whose answers nobody reads. */
function pipelines({ times, apps }: To): void {
  const bytes = Buffer.concat(Array(10).fill(http1Run(apps[0])));
  for (let at = 0; at < times; at += 10) {
    socketOf().write(bytes);
    load.requests += 10;
    load.bytesSent += bytes.length;
  }
}
