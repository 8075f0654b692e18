import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  AppBackendService,
  StreamRunRequestSchema,
  StreamRunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import { type HeldBytes, overloaded } from "../limit/byte-budget.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { appFailed } from "./backend-runner.ts";
import { type Run, takeText } from "./runner.ts";

export type GrpcMethod = "run" | "streamRun";

export const grpcPaths: Readonly<Record<GrpcMethod, string>> = {
  run: `/${AppBackendService.typeName}/${AppBackendService.method.run.name}`,
  streamRun: `/${AppBackendService.typeName}/${AppBackendService.method.streamRun.name}`,
};

/**
 * The request of a run, for either method. It is kept until the app's first message, because until
 * then the app may say that it does not have the method that was called.
 */
export class GrpcRequest {
  readonly run: Run;
  readonly #held: HeldBytes;
  readonly #size: number;
  #message: Buffer | undefined;

  /** Throws OVERLOADED if there is no room for it. */
  constructor(run: Run) {
    const message = requestOf(run);
    // The library makes a copy, and keeps that as long.
    this.#size = 2 * message.length;
    if (!run.held.take(this.#size)) throw overloaded();
    this.run = run;
    this.#held = run.held;
    this.#message = message;
  }

  get message(): Buffer {
    if (this.#message === undefined) throw new Error("the request was dropped");
    return this.#message;
  }

  /** Frees the memory: the library refers to the message until the end of the call. */
  drop(): void {
    const message = this.#message;
    if (message === undefined) return;
    this.#message = undefined;
    if (message.buffer instanceof ArrayBuffer) message.buffer.transfer(0);
    this.#held.give(this.#size);
  }
}

/** The request of either method: they have the same fields. */
function requestOf(run: Run): Buffer {
  const { runId, teamId, app } = run;
  const request = create(StreamRunRequestSchema, { runId, teamId, appId: app.id, text: takeText(run) });
  const { buffer, byteOffset, byteLength } = toBinary(StreamRunRequestSchema, request);
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The text of a message of either method; APP_FAILED if it can't be read. */
export function textOf(message: Buffer): string | Refusal {
  try {
    return fromBinary(StreamRunResponseSchema, message).text;
  } catch {
    return appFailed("A message of the app can't be read.");
  }
}
