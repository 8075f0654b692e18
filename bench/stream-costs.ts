// The question `streams`: what many words cost. Each server streams 1 MiB in words of one letter;
// Keyrun's longest turn of the event loop is measured in its process (`turn-meter.ts`).
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { create, toBinary } from "@bufbuild/protobuf";
import { StreamAppRequestSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { spawnServer } from "./child-server.ts";
import { cpuUsOf, processTree } from "./processes.ts";
import { startKeyrun } from "./start-keyrun.ts";
import type { MeasuredTurns } from "./turn-meter.ts";

const words = 500_000;
const text = "a ".repeat(words);

export interface StreamRow {
  readonly name: string;
  /** Bytes of the answer. */
  readonly bytes: number;
  readonly cpuMs: number;
  readonly ms: number;
  /** Of Keyrun alone. */
  readonly longestTurnMs: number | undefined;
}

interface StreamedWay {
  readonly name: string;
  readonly pid: number;
  readonly hasMeter: boolean;
  /** Resolves with the bytes of the answer's body. */
  send(): Promise<number>;
}

/**
 * The medians of so many rounds, after two that do not count. Each round sends twice: the second
 * time for the longest turn alone, because the meter takes processor time itself.
 */
export async function measureStreams(rounds: number, only = ""): Promise<readonly StreamRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "keyrun-bench-streams-"));
  const meterPath = join(folder, "meter");
  const bare = await spawnServer(
    [process.execPath, fileURLToPath(new URL("./bare-stream.ts", import.meta.url))],
    /port (\d+)/,
  );
  const keyrun = await startKeyrun({
    KEYRUN_DRAIN_MS_MAX: "0",
    NODE_OPTIONS: `--import=${fileURLToPath(new URL("./turn-meter.ts", import.meta.url))}`,
    TURN_METER: meterPath,
  });
  const app = await startWordyApp();
  const meter = connect(meterPath).setEncoding("utf8");
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
    const ways: [string, () => Promise<number>][] = [
      ["Keyrun, echo, server-sent events", post(keyrun.port, "echo")],
      ["Keyrun, echo, lines of JSON", post(keyrun.port, "echo", lines)],
      ["Keyrun, echo, gRPC", rpc("application/grpc", framed(Buffer.from(message)))],
      ["Keyrun, echo, Connect with JSON", rpc("application/connect+json", framed(json))],
      ["Keyrun, an app behind HTTP, server-sent events", post(keyrun.port, "wordy")],
    ];
    const rows = [
      await measureWay(meter, rounds, {
        name: "bare-stream, server-sent events",
        pid: bare.pid,
        hasMeter: false,
        send: post(Number(bare.match[1]), "echo"),
      }),
    ];
    for (const [name, send] of ways) {
      if (name.includes(only))
        rows.push(await measureWay(meter, rounds, { name, send, pid: keyrun.pid, hasMeter: true }));
    }
    return rows;
  } finally {
    meter.destroy();
    app.close();
    await keyrun.stop();
    await bare.stop();
    rmSync(folder, { recursive: true });
  }
}

async function measureWay(meter: Socket, rounds: number, way: StreamedWay): Promise<StreamRow> {
  const measured: StreamRow[] = [];
  for (let round = -2; round < rounds; round++) {
    const [startUs, startMs] = [cpuUsOf(processTree(way.pid)), performance.now()];
    const bytes = await way.send();
    const [ms, us] = [performance.now() - startMs, cpuUsOf(processTree(way.pid)) - startUs];
    const turns = way.hasMeter ? await turnsOf(meter, way) : undefined;
    const row = { name: way.name, bytes, cpuMs: us / 1_000, ms, longestTurnMs: turns?.longestMs };
    if (round >= 0) measured.push(row);
  }
  const middle = (of: (row: StreamRow) => number) =>
    measured.map(of).sort((a, b) => a - b)[Math.floor((measured.length - 1) / 2)]!;
  return {
    name: way.name,
    bytes: measured[0]!.bytes,
    cpuMs: middle(({ cpuMs }) => cpuMs),
    ms: middle(({ ms }) => ms),
    longestTurnMs: way.hasMeter ? middle(({ longestTurnMs = 0 }) => longestTurnMs) : undefined,
  };
}

async function turnsOf(meter: Socket, { send }: StreamedWay): Promise<MeasuredTurns> {
  await ask(meter, "begin");
  await send();
  return JSON.parse(await ask(meter, "end"));
}

async function ask(meter: Socket, word: "begin" | "end"): Promise<string> {
  const answered = once(meter, "data");
  meter.write(word);
  const [answer] = await answered;
  return answer;
}

async function postHttp1(port: number, path: string, headers: Record<string, string>): Promise<number> {
  const asked = request({ port, path, method: "POST", headers, agent: false }).end(JSON.stringify({ text }));
  const [answer] = await once(asked, "response");
  if (answer.statusCode !== 200) throw new Error(`it answered ${answer.statusCode}`);
  return await bytesOf(answer);
}

async function postHttp2(port: number, headers: Record<string, string>, body: Buffer): Promise<number> {
  const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 1 << 24 } });
  const stream = session.request({
    ":method": "POST",
    ":path": "/keyrun.v1.RunService/StreamApp",
    ...headers,
  });
  stream.end(body);
  return await bytesOf(stream).finally(() => session.destroy());
}

/** Each word takes some bytes of framing, so fewer were no answer. */
async function bytesOf(body: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0;
  let last: Buffer | undefined;
  for await (const chunk of body) {
    bytes += chunk.length;
    last = chunk;
  }
  if (bytes < 10 * words) throw new Error(`the answer has ${bytes} bytes, and ends with ${last}`);
  return bytes;
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
    "**1 MiB streamed in 500,000 words**, one stream at a time",
    "",
    "| server | words a second | MB of the answer a second | processor ms | longest turn, ms |",
    "| --- | ---: | ---: | ---: | ---: |",
    ...rows.map(({ name, bytes, cpuMs, ms, longestTurnMs }) => {
      const perSecond = [Math.round((1_000 * words) / ms), (bytes / ms / 1_000).toFixed(1)];
      return `| ${[name, ...perSecond, cpuMs.toFixed(0), longestTurnMs?.toFixed(1) ?? ""].join(" | ")} |`;
    }),
  ].join("\n");
}
