import { isReason, rowOf } from "../../refusal/reasons.ts";
import { fail, Refusal } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunOutput } from "../runner.ts";
import type { RunEnd, RunFault, RunRecord } from "./run-store.ts";

/** What came of a run: the app's output, or why there is none. */
export type RunOutcome =
  | { readonly output: RunOutput; readonly refusal?: undefined }
  | { readonly output?: undefined; readonly refusal: Refusal };

/** Waits for an app's output, and never rejects. */
export async function outcomeOf(output: Promise<RunOutput>): Promise<RunOutcome> {
  try {
    return { output: await output };
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) {
      return { refusal: fail("INTERNAL", { cause: thrown, mayHaveRun: true }) };
    }
    // It was cut off at the end of a drain.
    const isCut = thrown.reason === "UNAVAILABLE" && thrown.mayHaveRun;
    return { refusal: isCut ? interrupted() : thrown };
  }
}

export const interrupted = (): Refusal => fail("RUN_INTERRUPTED", { mayHaveRun: true });
export const cancelled = (): Refusal => fail("RUN_CANCELLED", { mayHaveRun: true });

/** How a run with this outcome ends. Where its app has got nothing, its key is free again. */
export function endOf({ output, refusal }: RunOutcome, { endTimeMs, keptMs }: EndTimes): RunEnd {
  const times = { endTimeMs, expireTimeMs: endTimeMs + keptMs };
  if (refusal === undefined) {
    const text = writeOutput(output);
    const isKept = Buffer.byteLength(text) <= runBounds.keptTextBytesMax;
    return { ...times, state: "succeeded", text: isKept ? text : null, error: null };
  }
  const { reason, message, mayHaveRun } = refusal;
  const state = reason === "RUN_CANCELLED" ? "cancelled" : "failed";
  const error = { code: reason.toLowerCase(), message, status: rowOf(reason).httpStatus };
  return { ...times, state, text: null, error, freesKey: !mayHaveRun };
}

/**
 * What is kept of an output, as one text. A text alone is kept as it is, and anything else as JSON,
 * which begins with a brace. So that the two are told apart, a text that begins with a brace is
 * kept as JSON, too.
 */
function writeOutput({ text, output }: RunOutput): string {
  const isPlain = text !== undefined && output === undefined && !text.startsWith("{");
  return isPlain ? text : JSON.stringify({ text, output });
}

/** The output of which this text is kept. */
export function readOutput(kept: string): RunOutput {
  return kept.startsWith("{") ? JSON.parse(kept) : { text: kept };
}

/** A record, with its text where that is at hand and need not be read from the store. */
export type RunWithText = RunRecord & { readonly text?: string | null };

/** The record of the run once it has this end. */
export function ended(record: RunRecord, end: RunEnd): RunWithText {
  const { state, text, error, endTimeMs, expireTimeMs, freesKey } = end;
  return {
    ...record,
    keyHash: freesKey ? record.id : record.keyHash,
    state,
    textBytes: text === null ? null : Buffer.byteLength(text),
    error,
    endTimeMs,
    expireTimeMs,
    text,
  };
}

interface EndTimes {
  readonly endTimeMs: number;
  /** How long the record is kept after it. */
  readonly keptMs: number;
}

/** The refusal with which a caller that waited for the run would have been refused. */
export function refusalOfFault({ code, message }: RunFault): Refusal {
  const reason = code.toUpperCase();
  // A newer instance may know more reasons.
  return fail(isReason(reason) ? reason : "APP_FAILED", { problem: message, mayHaveRun: true });
}
