import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { create, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { anyPack, DurationSchema } from "@bufbuild/protobuf/wkt";
import { Server as GrpcServer, type handleUnaryCall, Metadata, ServerCredentials } from "@grpc/grpc-js";
import { expect } from "vitest";
import { RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import {
  AppBackendService,
  RunRequestSchema,
  RunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { AppRecord, BackendRecord } from "#src/apps/app-store.ts";
import { type Clock, systemClock, type Timers } from "#src/base/clock.ts";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import { createRedaction } from "#src/log/redaction.ts";
import { fail, Refusal } from "#src/refusal/refusal.ts";
import { type AppRunner, createAppRunner } from "#src/run/app-runner.ts";
import type { NameFilePaths } from "#src/run/resolve-host.ts";
import type { Run, RunOutput } from "#src/run/runner.ts";

/**
 * A runner that `await using` closes. `run` and `stream` give the text, and fail where an app gives
 * JSON: `outputs` gives both.
 */
export function openAppRunner(
  options: {
    appRunsMax?: number;
    outputBytesMax?: number;
    silenceMsMax?: number;
    nameFiles?: NameFilePaths;
    clock?: Clock;
    timers?: Timers;
  } = {},
) {
  const runner: AppRunner = createAppRunner({
    clock: systemClock,
    appRunsMax: 64,
    backgroundRunsMax: 64,
    outputBytesMax: 1024,
    redact: createRedaction("svc", []),
    ...options,
  });
  return {
    ...runner,
    run: async (run: Run) => textOf(await runner.run(run)),
    async *stream(run: Run) {
      for await (const piece of runner.stream(run)) {
        yield typeof piece === "string" ? piece : textOf(piece);
      }
    },
    outputs: runner,
    [Symbol.asyncDispose]: () => runner.close(),
  };
}

/** The text of an output that has nothing else. */
export function textOf({ text, output }: RunOutput): string {
  if (text === undefined || output !== undefined) throw new Error("The output is not text alone.");
  return text;
}

export function appOn(backend: BackendRecord, facts: Partial<AppRecord> = {}): AppRecord {
  const base = {
    id: "shout",
    displayName: "Shout",
    timeoutMs: 10_000,
    streamTimeoutMs: 20_000,
    backgroundTimeoutMs: 30_000,
    teamIds: [],
    createTimeMs: 0,
    version: 1,
  };
  return { ...base, backend, ...facts };
}

export function runOf(app: AppRecord, facts: Partial<Run> = {}): Run {
  const base = { runId: "run_1", teamId: "demo", keyId: "k", text: "hello", requestId: "req-1" };
  return { ...base, app, reservation: unlimitedReservation, signal: new AbortController().signal, ...facts };
}

/** A caller that leaves when `leave` is called, by itself or for the reason of the argument. */
export function callerThatLeaves() {
  const left = new AbortController();
  return {
    signal: left.signal,
    leave(refusal: Refusal = fail("CANCELLED", { mayHaveRun: true })) {
      left.abort(refusal);
    },
  };
}

/** Fails if this has ended by now, but for what is still on its way to us. */
export async function expectPending(running: Promise<unknown>): Promise<void> {
  await turn();
  const pending = Symbol("pending");
  expect(await Promise.race([running, Promise.resolve(pending)])).toBe(pending);
}

/** The refusal that a run ended with. Throws if the run succeeded. */
export async function refusalOf(running: string | Promise<string>): Promise<Refusal> {
  const ended = await Promise.resolve(running).then(
    (text) => `the output ${text}`,
    (thrown: unknown) => thrown,
  );
  if (ended instanceof Refusal) return ended;
  throw new Error(`Expected a refusal, got ${ended}.`, { cause: ended });
}

/** The cause of a refusal, as logged. */
export function causeOf(refusal: Refusal): string {
  return refusal.cause instanceof Error ? refusal.cause.message : String(refusal.cause ?? "");
}

/** A real HTTP server on loopback. `requests` counts the requests whose head has arrived. */
export async function serveHttp(handler: RequestListener) {
  const seen = { requests: 0, connections: 0 };
  const server: Server = createServer((request, response) => {
    seen.requests += 1;
    handler(request, response);
  });
  server.on("connection", () => {
    seen.connections += 1;
  });
  const port = await listen(server);
  const backend = { kind: "http", url: `http://127.0.0.1:${port}/run`, headers: [] } satisfies BackendRecord;
  return {
    backend,
    seen,
    /** Removes the server's timeout for idle connections, and the header that announces it. */
    keepConnections() {
      server.keepAliveTimeout = 0;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}

/** A TCP server that sends only what `connected` writes. */
export async function serveTcp(connected: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    connected(socket);
  });
  const port = await listen(server);
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}

export type GrpcHandler = handleUnaryCall<
  MessageShape<typeof RunRequestSchema>,
  MessageInitShape<typeof RunResponseSchema>
>;

/** A real gRPC server on loopback that shares no code with Keyrun. Port 0 picks a free one. */
export async function serveGrpc(handler: GrpcHandler, port = 0) {
  const seen = { runs: 0 };
  const server = new GrpcServer({ "grpc.max_receive_message_length": -1 });
  const { run } = AppBackendService.method;
  const definition = {
    path: `/${AppBackendService.typeName}/${run.name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: (message: MessageShape<typeof RunRequestSchema>) =>
      Buffer.from(toBinary(RunRequestSchema, message)),
    requestDeserialize: (bytes: Buffer) => fromBinary(RunRequestSchema, bytes),
    responseSerialize: (message: MessageInitShape<typeof RunResponseSchema>) =>
      Buffer.from(toBinary(RunResponseSchema, create(RunResponseSchema, message))),
    responseDeserialize: (bytes: Buffer) => fromBinary(RunResponseSchema, bytes),
  };
  const counting: GrpcHandler = (call, callback) => {
    seen.runs += 1;
    handler(call, callback);
  };
  server.addService({ run: definition }, { run: counting });
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, boundPort) =>
      error ? reject(error) : resolve(boundPort),
    );
  });
  const backend = { kind: "grpc", target: `127.0.0.1:${bound}`, tls: false } satisfies BackendRecord;
  return {
    backend,
    seen,
    port: bound,
    async [Symbol.asyncDispose]() {
      server.forceShutdown();
    },
  };
}

/** The trailer with which a gRPC app says when it can be called again. */
export function retryIn(seconds: bigint, nanos = 0): Metadata {
  const info = create(RetryInfoSchema, { retryDelay: create(DurationSchema, { seconds, nanos }) });
  const details = [anyPack(RetryInfoSchema, info)];
  const status = create(StatusSchema, { code: 14, message: "busy", details });
  return detailsTrailer(toBinary(StatusSchema, status));
}

export function detailsTrailer(bytes: Uint8Array): Metadata {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(bytes));
  return metadata;
}

async function listen(server: ReturnType<typeof createTcpServer>): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}
