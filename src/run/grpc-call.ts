/**
 * One call of a gRPC app: its request and its messages, and the refusal that its status becomes.
 */

import { create, fromBinary, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { connectivityState, Metadata, status } from "@grpc/grpc-js";
import {
  AppBackendService,
  RunResponseSchema,
  StreamRunRequestSchema,
  StreamRunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import { systemClock, type Timers } from "../base/clock.ts";
import { innermostCause } from "../base/innermost-cause.ts";
import { traceHeaders } from "../http/trace-context.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { appBusy, refusalOfStatus } from "./app-refusals.ts";
import type { CleanWords } from "./app-words.ts";
import type { ChannelLease } from "./grpc-channels.ts";
import { faultOfJson } from "./json-values.ts";
import { runBounds } from "./run-bounds.ts";
import { appFailed, appTimedOut, appUnreachable, type Run, type RunOutput } from "./runner.ts";

/**
 * Sends one message and no more. It uses the channel without the library's client, which would read
 * ahead and make several objects more for each call. The caller cancels it at the deadline, so the
 * library gets none, and sets no timer, unless it has to connect first: then only the library knows
 * what is left of the time when it sends.
 */
export function startCall(
  channel: ChannelLease,
  method: GrpcMethod,
  { run, message, cleanWords }: GrpcRequest,
  { msLeft, msSent, timers }: CallTimes,
  answer: GrpcAnswer,
): GrpcCall {
  const connection = channel.client.getChannel();
  const isConnected = connection.getConnectivityState(false) === connectivityState.READY;
  const deadline = isConnected ? Number.POSITIVE_INFINITY : systemClock.unixMs() + msSent();
  const call = connection.createCall(grpcPaths[method], deadline, null, null, null);
  const cancel = () => call.cancelWithStatus(status.CANCELLED, "Cancelled by Keyrun.");
  const noConnection = isConnected ? neverLate : callIfNotConnected(channel, timers, cancel);
  // Before a call has a connection, its peer is the channel's target.
  const isSent = () => call.getPeer() !== connection.getTarget();
  let hasHead = false;
  let mayHideMessage = false;
  let hasMessage = false;
  const metadata = new Metadata();
  metadata.set("x-request-id", run.requestId);
  const carried = traceHeaders(run.traceContext);
  for (let at = 0; at + 1 < carried.length; at += 2) metadata.set(carried[at] ?? "", carried[at + 1] ?? "");
  metadata.set("grpc-timeout", `${Math.max(1, Math.ceil(msSent()))}m`);
  call.start(metadata, {
    onReceiveMetadata(head) {
      hasHead = true;
      // The library itself ends a call with UNIMPLEMENTED if it can't read a message of the answer.
      mayHideMessage = !head.get("grpc-encoding").every((encoding) => knownEncodings.has(encoding));
      answer.onHead();
    },
    onReceiveMessage(bytes) {
      hasMessage = true;
      answer.onMessage(bytes);
    },
    onReceiveStatus({ code, details, metadata: trailer }) {
      const isLate = noConnection.stop();
      if (isSent()) run.answered?.(code);
      if (code === status.OK) return answer.onEnd({ isOk: true });
      const isUnimplemented = code === status.UNIMPLEMENTED && !mayHideMessage && isSent();
      const refusal = isSent() ? failed(code, details, trailer) : unreachable(code, details, isLate);
      answer.onEnd({ isOk: false, refusal, isUnimplemented });
    },
  });
  call.sendMessageWithContext({}, message);
  call.halfClose();
  return { read: () => call.startRead(), cancel };

  function failed(code: status, details: string, trailer: Metadata): Refusal {
    // Many servers reset a call at its deadline, and so may be earlier than the caller's timer.
    const isReset = code === status.CANCELLED && msSent() <= 0;
    if (isReset || code === status.DEADLINE_EXCEEDED) {
      return isOfCaller()
        ? fail("DEADLINE_EXCEEDED", { mayHaveRun: true })
        : appTimedOut("The call's deadline passed.");
    }
    // A server that refuses a stream has done nothing with it (RFC 9113, section 8.7). So end
    // those, too, that come after the last one of a server that closes its connection.
    if (!hasHead && isRefusedStream(code, details, trailer)) return appBusy(0, "REFUSED_STREAM");
    const [bytes] = trailer.get("grpc-status-details-bin");
    const said = { code, details, trailer: bytes instanceof Buffer ? bytes : undefined };
    const refusal = refusalOfStatus(said, cleanWords);
    // What has sent a part of its output can't say that it did nothing.
    const isTrue = !(hasMessage && refusal?.reason === "APP_BUSY");
    return refusal && isTrue ? refusal : appFailed(`The call failed: ${nameOf(code, details)}`);
  }

  /** Whether the deadline that has passed, or is about to, is the caller's and not the app's. */
  function isOfCaller(): boolean {
    return msSent() < Math.min(msLeft(), runBounds.backendDeadlineErrorMsMax);
  }

  function unreachable(code: status, details: string, isLate: boolean): Refusal {
    // The connection may never be made. The next run tries a new one.
    if (isLate || (code === status.DEADLINE_EXCEEDED && !isOfCaller())) channel.retire();
    const late = `No connection within ${runBounds.backendConnectMsMax} ms.`;
    return appUnreachable(isLate ? late : nameOf(code, details));
  }
}

/** What a server answers to a call. */
export interface GrpcAnswer {
  /** The server has begun to answer. It may also send a message or its status first. */
  onHead(): void;
  /** A message, after each `read`. */
  onMessage(bytes: Buffer): void;
  /**
   * The call is over; comes once. OK comes only after every message was read, and another status
   * at once: what was not read by then is lost.
   */
  onEnd(end: CallOutcome): void;
}

export type CallOutcome =
  | { readonly isOk: true }
  | {
      readonly isOk: false;
      readonly refusal: Refusal;
      /** The server does not have the method, so nothing has run. */
      readonly isUnimplemented: boolean;
    };

export interface GrpcCall {
  /** Asks for one message. */
  read(): void;
  /** Ends the call soon. `onEnd` is called then. */
  cancel(): void;
}

export interface CallTimes {
  /** How much is left of the time that the app may take, in milliseconds. */
  msLeft(): number;
  /** What is sent to the app: less, if the deadline of the caller is earlier. */
  msSent(): number;
  readonly timers: Timers;
}

/**
 * The library's own words for a stream that the server has refused. A server that passes the status
 * on of another one has a trailer, which has its content type at least.
 */
function isRefusedStream(code: status, details: string, trailer: Metadata): boolean {
  const isOfLibrary = Object.keys(trailer.getMap()).length === 0;
  return isOfLibrary && code === status.UNAVAILABLE && details === "Stream refused by server";
}

const knownEncodings: ReadonlySet<string | Buffer> = new Set(["identity", "gzip", "deflate"]);

/**
 * Calls `cancel` if the channel makes no connection within `backendConnectMsMax`, so that the call
 * can't have been sent. `stop` ends that, and returns whether `cancel` was called.
 */
function callIfNotConnected({ connections }: ChannelLease, timers: Timers, cancel: () => void) {
  const connectionsBefore = connections();
  let isLate = false;
  const timer = timers.after(runBounds.backendConnectMsMax, () => {
    isLate = connections() === connectionsBefore;
    if (isLate) cancel();
  });
  return {
    stop() {
      timer.cancel();
      return isLate;
    },
  };
}

const neverLate = { stop: () => false };

/** The library gives no code where it can't decompress a message. */
function nameOf(code: status | undefined, details: string): string {
  if (code === undefined) return "a message can't be decompressed";
  return innermostCause(new Error(`${code} ${status[code]}: ${details}`));
}

export type GrpcMethod = "run" | "streamRun";

const grpcPaths: Readonly<Record<GrpcMethod, string>> = {
  run: `/${AppBackendService.typeName}/${AppBackendService.method.run.name}`,
  streamRun: `/${AppBackendService.typeName}/${AppBackendService.method.streamRun.name}`,
};

/** The request of a run, for either method: they have the same fields. */
export interface GrpcRequest {
  readonly run: Run;
  readonly message: Buffer;
  /** Makes the words of an app that refuses fit for the caller. */
  readonly cleanWords: CleanWords;
}

export function messageOf({ runId, teamId, app, keyId, text, input }: Run): Buffer {
  const fields = { runId, teamId, appId: app.id, text, input, keyId };
  const request = create(StreamRunRequestSchema, fields);
  const { buffer, byteOffset, byteLength } = toBinary(StreamRunRequestSchema, request);
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** What a message of a method gives; APP_FAILED if it can't be read, or must not be passed on. */
export function outputOf(method: GrpcMethod, message: Buffer): RunOutput | Refusal {
  try {
    const read = fromBinary(method === "run" ? RunResponseSchema : StreamRunResponseSchema, message);
    const { text, output: value } = read;
    if (value === undefined) {
      return text === undefined ? appFailed("Run answered neither `text` nor `output`.") : { text };
    }
    const output = jsonOf(value);
    const fault = output === undefined ? "is no JSON." : faultOfJson(output);
    return fault === undefined ? { text, output } : appFailed(`The app's \`output\` ${fault}`);
  } catch {
    return appFailed("A message of the app can't be read.");
  }
}

/** Undefined for a value without a kind, and a number that is not finite: neither is JSON. */
function jsonOf(value: Value): JsonValue | undefined {
  try {
    return toJson(ValueSchema, value);
  } catch {
    return undefined;
  }
}
