import { connectivityState, status } from "@grpc/grpc-js";
import { systemClock, type Timers } from "../base/clock.ts";
import { traceHeaders } from "../http/trace-context.ts";
import { overloaded } from "../limit/byte-budget.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { appFailed, appUnreachable, nameOfFailure } from "./backend-runner.ts";
import { CountedMetadata } from "./collecting-call.ts";
import type { ChannelLease } from "./grpc-channels.ts";
import { runBounds } from "./run-bounds.ts";
import type { Run } from "./runner.ts";

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
  onEnd(end: CallEnd): void;
}

export type CallEnd =
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
  /** Ends the call soon; `onEnd` tells. */
  cancel(): void;
}

export interface CallTimes {
  /** How much is left of the time that the call may take, in milliseconds. */
  msLeft(): number;
  readonly timers: Timers;
}

/** The parts of a run that go into the metadata of its call, and get the status of that. */
type CarriedRun = Pick<Run, "requestId" | "traceContext" | "answered" | "held">;

/**
 * Sends one message and no more. It uses the channel without the library's client, which would read
 * ahead and make several objects more for each call. The caller cancels it at the deadline, so the
 * library gets none, and sets no timer, unless it has to connect first: then only the library knows
 * what is left of the time when it sends.
 */
export function startCall(
  channel: ChannelLease,
  request: CallTimes & { path: string; message: Buffer; run: CarriedRun },
  answer: GrpcAnswer,
): GrpcCall {
  const connection = channel.client.getChannel();
  const isConnected = connection.getConnectivityState(false) === connectivityState.READY;
  const deadline = isConnected ? Number.POSITIVE_INFINITY : systemClock.unixMs() + request.msLeft();
  const call = connection.createCall(request.path, deadline, null, null, null);
  const cancel = () => call.cancelWithStatus(status.CANCELLED, "Cancelled by Keyrun.");
  // Before a call has a stream on a connection, its peer is the channel's target.
  const isSent = () => call.getPeer() !== connection.getTarget();
  const noConnection = isConnected ? neverLate : callIfNotConnected(channel, request.timers, cancel);
  let mayHideMessage = false;
  const { held } = request.run;
  let hasRoom = true;
  const metadata = new CountedMetadata({
    grow(bytes) {
      hasRoom &&= held.take(bytes);
      return hasRoom;
    },
    shrink: (bytes) => held.give(bytes),
  });
  metadata.set("x-request-id", request.run.requestId);
  const carried = traceHeaders(request.run.traceContext);
  for (let at = 0; at + 1 < carried.length; at += 2) metadata.set(carried[at] ?? "", carried[at + 1] ?? "");
  metadata.set("grpc-timeout", `${Math.max(1, Math.ceil(request.msLeft()))}m`);
  call.start(metadata, {
    onReceiveMetadata(head) {
      // The library itself ends a call with UNIMPLEMENTED if it can't read a message of the answer.
      mayHideMessage = !head.get("grpc-encoding").every((encoding) => knownEncodings.has(encoding));
      answer.onHead();
    },
    onReceiveMessage: (bytes) => answer.onMessage(bytes),
    onReceiveStatus({ code, details }) {
      const isLate = noConnection.stop();
      if (isSent()) request.run.answered?.(code);
      if (code === status.OK) return answer.onEnd({ isOk: true });
      if (!hasRoom) {
        const refusal = overloaded({ mayHaveRun: true });
        return answer.onEnd({ isOk: false, refusal, isUnimplemented: false });
      }
      const isUnimplemented = code === status.UNIMPLEMENTED && !mayHideMessage && isSent();
      const refusal = isSent() ? failed(code, details) : unreachable(code, details, isLate);
      answer.onEnd({ isOk: false, refusal, isUnimplemented });
    },
  });
  call.sendMessageWithContext({}, request.message);
  call.halfClose();
  return { read: () => call.startRead(), cancel };

  function failed(code: status, details: string): Refusal {
    // Many servers reset a call at its deadline, and so may be earlier than the caller's timer.
    const isReset = code === status.CANCELLED && request.msLeft() <= 0;
    return refusalOf(isReset ? status.DEADLINE_EXCEEDED : code, details);
  }

  function unreachable(code: status, details: string, isLate: boolean): Refusal {
    // The connection may never be made. The next run tries a new one.
    if (isLate || code === status.DEADLINE_EXCEEDED) channel.retire();
    const late = `No connection within ${runBounds.backendConnectMsMax} ms.`;
    return appUnreachable(isLate ? late : nameOf(code, details));
  }
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

function refusalOf(code: status, details: string): Refusal {
  if (code === status.DEADLINE_EXCEEDED) {
    return fail("APP_TIMEOUT", { cause: new Error("The call's deadline passed."), mayHaveRun: true });
  }
  return appFailed(`The call failed: ${nameOf(code, details)}`);
}

function nameOf(code: status, details: string): string {
  return nameOfFailure(new Error(`${code} ${status[code]}: ${details}`));
}
