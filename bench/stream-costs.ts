// The question `streams`: what the text of many words costs. Each server streams 1 MB that its app
// says in words of one letter.
import { once } from "node:events";
import { createServer, request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { StreamAppRequestSchema, StreamAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { spawnServer } from "./child-server.ts";
import { cpuUsOf, processTree } from "./processes.ts";
import { startKeyrun } from "./start-keyrun.ts";

const words = 500_000;
const text = "a ".repeat(words);

export interface StreamRow {
  readonly name: string;
  /** Bytes of the answer, and messages of it that have text. */
  readonly bytes: number;
  readonly deltas: number;
  readonly cpuMs: number;
  readonly ms: number;
}

interface Answer {
  readonly bytes: number;
  readonly deltas: number;
}

interface StreamedWay {
  readonly name: string;
  readonly pid: number;
  /** Throws at an answer whose text is not the one that was asked for. */
  send(): Promise<Answer>;
}

/** The medians of so many rounds, after two that do not count. */
export async function measureStreams(rounds: number): Promise<readonly StreamRow[]> {
  const bare = await spawnServer(
    [process.execPath, fileURLToPath(new URL("./bare-stream.ts", import.meta.url))],
    /port (\d+)/,
  );
  const keyrun = await startKeyrun({ KEYRUN_DRAIN_MS_MAX: "0" });
  const app = await startWordyApp();
  try {
    await keyrun.teams.createTeam({ team: { id: "wordy" } });
    const { value } = await keyrun.keys.createKey({ teamId: "wordy" });
    const kind = { case: "http", value: { url: app.url } } as const;
    await keyrun.apps.createApp({ app: { id: "wordy", backend: { kind } } });
    const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
    const post =
      (port: number, appId: string, more = {}) =>
      () =>
        postHttp1(port, `/api/apps/${appId}/stream`, { ...headers, ...more });
    const version = { "connect-protocol-version": "1" };
    const rpc = (type: string, body: Buffer) => () =>
      postHttp2(
        keyrun.port,
        { authorization: `Bearer ${value}`, "content-type": type, te: "trailers", ...version },
        body,
      );
    const message = toBinary(StreamAppRequestSchema, create(StreamAppRequestSchema, { appId: "echo", text }));
    const json = Buffer.from(JSON.stringify({ appId: "echo", text }));
    const lines = { accept: "application/x-ndjson" };
    const ways: [string, () => Promise<Answer>][] = [
      ["Keyrun, echo, server-sent events", post(keyrun.port, "echo")],
      ["Keyrun, echo, lines of JSON", post(keyrun.port, "echo", lines)],
      ["Keyrun, echo, gRPC", rpc("application/grpc", framed(Buffer.from(message)))],
      ["Keyrun, echo, Connect with JSON", rpc("application/connect+json", framed(json))],
      ["Keyrun, an app behind HTTP, server-sent events", post(keyrun.port, "wordy")],
    ];
    const rows = [
      await measureWay(rounds, {
        name: "bare-stream, server-sent events",
        pid: bare.pid,
        send: post(Number(bare.match[1]), "echo"),
      }),
    ];
    for (const [name, send] of ways) rows.push(await measureWay(rounds, { name, send, pid: keyrun.pid }));
    return rows;
  } finally {
    app.close();
    await keyrun.stop();
    await bare.stop();
  }
}

async function measureWay(rounds: number, way: StreamedWay): Promise<StreamRow> {
  const measured: StreamRow[] = [];
  for (let round = -2; round < rounds; round++) {
    const [startUs, startMs] = [cpuUsOf(processTree(way.pid)), performance.now()];
    const answer = await way.send();
    const [ms, us] = [performance.now() - startMs, cpuUsOf(processTree(way.pid)) - startUs];
    if (round >= 0) measured.push({ name: way.name, ...answer, cpuMs: us / 1_000, ms });
  }
  const middle = (of: (row: StreamRow) => number) =>
    measured.map(of).sort((a, b) => a - b)[Math.floor((measured.length - 1) / 2)]!;
  return {
    name: way.name,
    bytes: middle(({ bytes }) => bytes),
    deltas: middle(({ deltas }) => deltas),
    cpuMs: middle(({ cpuMs }) => cpuMs),
    ms: middle(({ ms }) => ms),
  };
}

async function postHttp1(port: number, path: string, headers: Record<string, string>): Promise<Answer> {
  const asked = request({ port, path, method: "POST", headers, agent: false }).end(JSON.stringify({ text }));
  const [answer] = await once(asked, "response");
  if (answer.statusCode !== 200) throw new Error(`it answered ${answer.statusCode}`);
  return readJson(await bodyOf(answer));
}

async function postHttp2(port: number, headers: Record<string, string>, body: Buffer): Promise<Answer> {
  const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 1 << 24 } });
  const stream = session.request({
    ":method": "POST",
    ":path": "/keyrun.v1.RunService/StreamApp",
    ...headers,
  });
  stream.end(body);
  const answer = await bodyOf(stream).finally(() => session.destroy());
  return headers["content-type"] === "application/grpc" ? readGrpc(answer) : readJson(answer);
}

async function bodyOf(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** An answer in events, in lines or in frames of JSON. None of the words needs an escape. */
function readJson(body: Buffer): Answer {
  const deltas = [...body.toString("latin1").matchAll(/"delta":\{"text":"([^"]*)"/g)];
  return checked(
    body,
    deltas.map(([, piece = ""]) => piece),
  );
}

function readGrpc(body: Buffer): Answer {
  const pieces: string[] = [];
  for (let at = 0; at < body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    const { event } = fromBinary(StreamAppResponseSchema, body.subarray(at + 5, end));
    if (event.case === "delta") pieces.push(event.value.text);
    at = end;
  }
  return checked(body, pieces);
}

function checked(body: Buffer, pieces: readonly string[]): Answer {
  if (pieces.join("") !== text)
    throw new Error(`the answer has another text, and ends with ${body.subarray(-200)}`);
  return { bytes: body.length, deltas: pieces.length };
}

function framed(message: Buffer): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** An app that sends the same words as lines of JSON, as fast as they are read. */
async function startWordyApp() {
  const lines = Buffer.from('{"text":"a "}\n'.repeat(words));
  const server = createServer((asked, answer) => {
    asked.resume().once("end", () => {
      answer.writeHead(200, { "Content-Type": "application/x-ndjson" }).end(lines);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => server.close().closeAllConnections(),
  };
}

/** What was measured as a Markdown table. */
export function streamTableOf(rows: readonly StreamRow[]): string {
  return [
    "**1 MB of text that an app says in 500,000 words**, one stream at a time",
    "",
    "| server | MB of text a second | processor ms | MB of the answer | messages with text |",
    "| --- | ---: | ---: | ---: | ---: |",
    ...rows.map(({ name, bytes, deltas, cpuMs, ms }) => {
      const textPerSecond = (text.length / ms / 1_000).toFixed(1);
      return `| ${[name, textPerSecond, cpuMs.toFixed(0), (bytes / 1e6).toFixed(1), deltas].join(" | ")} |`;
    }),
  ].join("\n");
}
