import { create, toBinary } from "@bufbuild/protobuf";
import { RunAppRequestSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { type Load, loadGrpc, loadHttp1 } from "./load.ts";
import { type Subject, startSubject } from "./subject.ts";

// Processor time a request, in one run, beside what it is compared with. The subjects take turns, so that a machine
// whose speed drifts drifts for all of them; the median of the rounds counts.
const rounds = Number(process.argv[2] ?? 7);
const load: Load = { connections: 16, requests: 4_000 };
const warmUp: Load = { connections: 16, requests: 8_000 };

const tables = [
  {
    title: "A run over REST (POST /api/apps/echo/run, HTTP/1.1)",
    subjects: ["bare-http", "keyrun", "fastify", "express", "connect-json"],
    send: (subject: Subject, how: Load) => loadHttp1(subject.port, restRequest(subject), how),
  },
  {
    title: "A run over gRPC (unary RunApp, HTTP/2)",
    subjects: ["bare-http2", "keyrun", "grpc-js", "connect-grpc"],
    send: (subject: Subject, how: Load) =>
      loadGrpc(subject.port, "/keyrun.v1.RunService/RunApp", grpcMessage(), subject.apiKey, how),
  },
] as const;

for (const { title, subjects, send } of tables) {
  const started = await Promise.all(subjects.map(startSubject));
  const costs = new Map<string, number[]>(subjects.map((name) => [name, []]));
  for (const subject of started) await send(subject, warmUp);
  for (let round = 0; round < rounds; round++) {
    for (const subject of started) {
      const before = await subject.cpuUs();
      await send(subject, load);
      costs.get(subject.name)?.push(((await subject.cpuUs()) - before) / load.requests);
    }
  }
  await Promise.all(started.map((subject) => subject.stop()));
  report(title, costs);
}

/** Ratios are taken round by round, against the first subject of the same round. */
function report(title: string, costs: ReadonlyMap<string, readonly number[]>): void {
  console.log(`\n${title}: ${rounds} rounds of ${load.requests} requests, ${load.connections} at a time\n`);
  console.log("| server | µs a request | times bare | min to max |");
  console.log("| --- | ---: | ---: | --- |");
  const [bare = []] = costs.values();
  for (const [name, each] of costs) {
    const ratios = each.map((cost, round) => cost / (bare[round] ?? Number.NaN)).toSorted((a, b) => a - b);
    const range = `${ratios.at(0)?.toFixed(2)} to ${ratios.at(-1)?.toFixed(2)}`;
    console.log(`| ${name} | ${median(each).toFixed(1)} | ${median(ratios).toFixed(2)} | ${range} |`);
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function restRequest({ port, apiKey }: Subject): string {
  const body = JSON.stringify({ text: "hello, how are you today?" });
  return [
    "POST /api/apps/echo/run HTTP/1.1",
    `Host: 127.0.0.1:${port}`,
    `Authorization: Bearer ${apiKey}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

function grpcMessage(): Buffer {
  const message = toBinary(
    RunAppRequestSchema,
    create(RunAppRequestSchema, { appId: "echo", text: "hello, how are you today?" }),
  );
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  return frame;
}
