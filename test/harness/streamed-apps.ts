import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  Server as GrpcServer,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type MethodDefinition,
  ServerCredentials,
  type StatusObject,
  status,
} from "@grpc/grpc-js";
import {
  AppBackendService,
  RunResponseSchema,
  type StreamRunRequest,
  StreamRunRequestSchema,
  StreamRunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { BackendRecord } from "#src/apps/app-store.ts";
import type { RunOutput, StreamPiece } from "#src/run/runner.ts";
import { bodyOf, serveHttp } from "./app-backends.ts";

/** One streamed run, as an app sees it. */
export interface Talk {
  readonly text: string;
  readonly requestId: string;
  readonly msLeft: number;
  /** Answers, without any text yet. */
  begin(): void;
  /** Sends a piece of the output. False: the connection takes no more for now. */
  say(text: string): boolean;
  /** Resolves when the connection takes more. */
  drained(): Promise<unknown>;
  /** Sends what only says that the app is at work. */
  live(): void;
  end(): void;
  /** Fails in the way in which this kind of app fails. */
  breakOff(): void;
  /** Resolves when the exchange is over, however it ended. */
  readonly gone: Promise<unknown>;
}

export type Script = (talk: Talk) => void;

/** A gRPC app can also end with a status. */
export type GrpcScript = (talk: Talk & { fail(status: Partial<StatusObject>): void }) => void;

export interface ServedApp extends AsyncDisposable {
  readonly backend: BackendRecord;
}

export interface AppKind {
  /** It sends its output in one piece, at the end. */
  readonly isWhole: boolean;
  serve(script: Script): Promise<ServedApp>;
}

/** Every kind of app that runs on a server, in every form in which it can stream. */
export const appKinds = {
  "an HTTP app with server-sent events": onHttp("text/event-stream; charset=utf-8", {
    piece: (text) => `data: ${JSON.stringify({ text })}\n\n`,
    life: ": ping\n\n",
  }),
  "an HTTP app with JSON lines": onHttp("application/x-ndjson", {
    piece: (text) => `${JSON.stringify({ text })}\n`,
    life: "\n",
  }),
  "an HTTP app with whole JSON": onHttp("application/json"),
  "a gRPC app with StreamRun": { isWhole: false, serve: (script) => serveGrpcApp({ streamRun: script }) },
  "a gRPC app with Run alone": { isWhole: true, serve: (script) => serveGrpcApp({ run: script }) },
} satisfies Record<string, AppKind>;

interface HttpForm {
  piece(text: string): string;
  readonly life: string;
}

function onHttp(type: string, form?: HttpForm): AppKind {
  return {
    isWhole: form === undefined,
    serve: (script) =>
      serveHttp(async (request, response) => {
        const { text } = JSON.parse(await bodyOf(request));
        const { headers } = request;
        const requestId = String(headers["x-request-id"]);
        const msLeft = Number(headers["x-keyrun-deadline-ms"]);
        const seen = { text, requestId, msLeft, gone: new Promise((gone) => response.on("close", gone)) };
        script({ ...seen, ...(form ? sayOverHttp(response, type, form) : answerOverHttp(response, type)) });
      }),
  };
}

function sayOverHttp(response: ServerResponse, type: string, { piece, life }: HttpForm) {
  response.setHeader("content-type", type);
  return {
    begin: () => response.flushHeaders(),
    say: (text: string) => response.write(piece(text)),
    drained: () => once(response, "drain"),
    live: () => void response.write(life),
    end: () => void response.end(),
    breakOff: () => void response.destroy(),
  };
}

function answerOverHttp(response: ServerResponse, type: string) {
  let whole = "";
  response.setHeader("content-type", type);
  return {
    begin: () => response.flushHeaders(),
    say(text: string) {
      whole += text;
      return true;
    },
    drained: () => Promise.resolve(),
    live() {},
    end: () => void response.end(JSON.stringify({ text: whole })),
    breakOff: () => void response.destroy(),
  };
}

/** A real gRPC server with the methods that are given. `seen` counts their calls. */
export async function serveGrpcApp(methods: { run?: GrpcScript; streamRun?: GrpcScript }) {
  const server = new GrpcServer({ "grpc.max_receive_message_length": -1 });
  const seen = { run: 0, streamRun: 0 };
  const run: handleUnaryCall<StreamRunRequest, string> = (call, callback) => {
    seen.run += 1;
    let whole = "";
    methods.run?.({
      ...seenBy(call),
      begin: () => call.sendMetadata(call.metadata),
      say(text) {
        whole += text;
        return true;
      },
      drained: () => Promise.resolve(),
      live() {},
      end: () => callback(null, whole),
      fail: callback,
      breakOff: () => callback({ code: status.INTERNAL, details: "its own words" }),
      gone: new Promise((gone) => call.on("cancelled", gone)),
    });
  };
  const streamRun: handleServerStreamingCall<StreamRunRequest, string> = (call) => {
    seen.streamRun += 1;
    methods.streamRun?.({
      ...seenBy(call),
      begin: () => call.sendMetadata(call.metadata),
      say: (text) => call.write(text),
      drained: () => once(call, "drain"),
      live: () => void call.write(""),
      end: () => call.end(),
      fail: (ended) => void call.emit("error", ended),
      breakOff: () => void call.emit("error", { code: status.INTERNAL, details: "its own words" }),
      gone: new Promise((gone) => call.on("cancelled", gone)),
    });
  };
  if (methods.run) server.addService({ run: definitionOf("run", false) }, { run });
  if (methods.streamRun) {
    server.addService({ streamRun: definitionOf("streamRun", true) }, { streamRun });
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  const backend = { kind: "grpc", target: `127.0.0.1:${port}`, tls: false } satisfies BackendRecord;
  return {
    backend,
    seen,
    async [Symbol.asyncDispose]() {
      server.forceShutdown();
    },
  };
}

function seenBy(
  call:
    | Parameters<handleUnaryCall<StreamRunRequest, string>>[0]
    | Parameters<handleServerStreamingCall<StreamRunRequest, string>>[0],
) {
  return {
    text: call.request.text ?? "",
    requestId: String(call.metadata.get("x-request-id")),
    msLeft: Number(call.getDeadline()) - Date.now(),
  };
}

/** Both methods have requests and responses of the same fields. */
function definitionOf(
  name: "run" | "streamRun",
  responseStream: boolean,
): MethodDefinition<StreamRunRequest, string> {
  return {
    path: `/${AppBackendService.typeName}/${AppBackendService.method[name].name}`,
    requestStream: false,
    responseStream,
    requestSerialize: (message) => Buffer.from(toBinary(StreamRunRequestSchema, message)),
    requestDeserialize: (bytes) => fromBinary(StreamRunRequestSchema, bytes),
    responseSerialize: (text) =>
      Buffer.from(
        responseStream
          ? toBinary(StreamRunResponseSchema, create(StreamRunResponseSchema, { text }))
          : toBinary(RunResponseSchema, create(RunResponseSchema, { text })),
      ),
    responseDeserialize: (bytes) => fromBinary(StreamRunResponseSchema, bytes).text,
  };
}

/**
 * Starts a stream. Resolves when its app has begun to answer, with the texts that are not empty,
 * and rejects with the refusal of one that does not begin.
 */
export async function begun(stream: AsyncGenerator<string, void>) {
  let first: IteratorResult<string, void> | undefined = await stream.next();
  const texts = {
    [Symbol.asyncIterator]: () => texts,
    async next(): Promise<IteratorResult<string, void>> {
      for (;;) {
        const next = first ?? (await stream.next());
        first = undefined;
        if (next.done || next.value !== "") return next;
      }
    },
    return: () => stream.return(),
  };
  return texts;
}

/** The texts of a stream that are not empty. */
export async function piecesOf(stream: AsyncIterable<string>): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of stream) if (piece !== "") pieces.push(piece);
  return pieces;
}

/**
 * The text of a stream, its JSON if it had any, and the refusal that it broke off with, if it did.
 */
export async function readText(stream: AsyncIterable<StreamPiece>) {
  const seen: RunOutput & { text: string; refusal?: unknown } = { text: "" };
  try {
    for await (const piece of stream) {
      if (typeof piece === "string") seen.text += piece;
      else Object.assign(seen, piece);
    }
  } catch (refusal) {
    seen.refusal = refusal;
  }
  return seen;
}

/** The backend as `CreateApp` takes it. */
export function kindOf(backend: BackendRecord) {
  if (backend.kind === "echo" || backend.kind === "guard") throw new Error("it has no server");
  return backend.kind === "http"
    ? ({ case: "http", value: { url: backend.url } } as const)
    : ({ case: "grpc", value: { target: backend.target } } as const);
}
