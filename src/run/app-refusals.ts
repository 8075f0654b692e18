// What an app may answer in place of an output: that it refuses the run, with words for the caller,
// or that it is busy, did nothing, and when to come again. Over HTTP and over gRPC the same. The
// cause of each is a plain string: an app that says no is no fault of Keyrun's, so its log line has
// no stack, and no word of the app's, which may repeat what it was sent.

import { isUtf8 } from "node:buffer";
import { fromBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { misleadingCharacters, type Redact } from "../log/redaction.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { runBounds } from "./run-bounds.ts";
import { appFailed } from "./runner.ts";

/** Makes an app's words fit for its caller; undefined where nothing is left to say. */
export type CleanWords = (words: string) => string | undefined;

/**
 * Cuts out of the words of an app what may be a key, and the values of the headers that the
 * operator has given it: an app may well repeat what it was sent. Without control characters, and
 * at most `appWordsMax` characters long.
 */
export function createCleanWords(redact: Redact, headerValues: readonly string[]): CleanWords {
  const secrets = headerValues.flatMap(secretsIn);
  return (words) => {
    let cut = words.replace(controls, " ");
    for (const secret of secrets) cut = cut.replaceAll(secret, "[redacted]");
    return shortened(redact(cut).trim()) || undefined;
  };
}

/** A value whole, and without the scheme before it: `Bearer`, for example. Longest first. */
function secretsIn(value: string): string[] {
  const credentials = value.slice(value.indexOf(" ") + 1);
  return [...new Set([value, credentials])].filter((secret) => secret !== "");
}

function shortened(words: string): string {
  const { appWordsMax } = runBounds;
  if (words.length <= appWordsMax) return words;
  const characters = [...words];
  return characters.length <= appWordsMax ? words : `${characters.slice(0, appWordsMax - 1).join("")}…`;
}

const controls = new RegExp(`[\\u0000-\\u001f${misleadingCharacters}]+`, "g");

/** Whether the body of an answer with this status may say why the app refuses. */
export function mayRefuse(status: number): boolean {
  return status === 400 || status === 422;
}

/** The refusal in the body of such an answer: `{"error":{"message":"…"}}`. */
export function refusalIn(body: Buffer, status: number, clean: CleanWords): Refusal {
  const words = messageIn(body);
  return (words === undefined ? undefined : appRefused(words, clean, status)) ?? badStatus(status);
}

function messageIn(body: Buffer): string | undefined {
  try {
    const message = isUtf8(body) ? JSON.parse(body.toString())?.error?.message : undefined;
    return typeof message === "string" ? message : undefined;
  } catch {
    return undefined;
  }
}

/** The refusal for an answer over HTTP with this status, by its head alone. */
export function refusalOfHead(
  status: number,
  retryAfter: string | string[] | undefined,
  unixMs: () => number,
): Refusal {
  const mayBeBusy = status === 429 || status === 503;
  const waitMs = mayBeBusy && typeof retryAfter === "string" ? readRetryAfter(retryAfter, unixMs) : undefined;
  return waitMs === undefined ? badStatus(status) : appBusy(waitMs, status);
}

/** Seconds, or a date (RFC 9110, section 10.2.3); undefined for anything else. */
function readRetryAfter(value: string, unixMs: () => number): number | undefined {
  if (/^\d+$/.test(value)) return Number(value) * 1_000;
  const dateMs = httpDate.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : dateMs - unixMs();
}

const httpDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** The refusal for a status of gRPC with which an app refuses, or is busy; undefined for others. */
export function refusalOfStatus(
  { code, details, trailer }: { code: status; details: string; trailer: Buffer | undefined },
  clean: CleanWords,
): Refusal | undefined {
  const called = `${code} ${status[code]}`;
  switch (code) {
    case status.INVALID_ARGUMENT:
    case status.FAILED_PRECONDITION:
      return details.length > runBounds.appRefusalBytesMax ? undefined : appRefused(details, clean, called);
    case status.RESOURCE_EXHAUSTED:
    case status.UNAVAILABLE: {
      const waitMs = trailer && readRetryInfo(trailer);
      return waitMs === undefined ? undefined : appBusy(waitMs, called);
    }
    default:
      return undefined;
  }
}

function readRetryInfo(trailer: Buffer): number | undefined {
  try {
    const { details } = fromBinary(StatusSchema, trailer);
    const found = details.find(({ typeUrl }) => typeUrl.endsWith(`/${RetryInfoSchema.typeName}`));
    const delay = found && fromBinary(RetryInfoSchema, found.value).retryDelay;
    return delay && Number(delay.seconds) * 1_000 + delay.nanos / 1e6;
  } catch {
    return undefined;
  }
}

function appRefused(words: string, clean: CleanWords, answered: number | string): Refusal | undefined {
  const problem = clean(words);
  if (problem === undefined) return undefined;
  return fail("APP_REFUSED", { problem, cause: `The app answered ${answered}.`, mayHaveRun: true });
}

/** The refusal of an app that has done nothing, and asks for this wait. It is cut to 1 to 60 s. */
export function appBusy(waitMs: number, answered: number | string): Refusal {
  const retryAfterMs = Math.min(Math.max(waitMs, runBounds.appBusyMsMin), runBounds.appBusyMsMax);
  const wait = Math.ceil(retryAfterMs / 1_000);
  const problem = `The app is busy, and has not done this run. Try again in ${wait} s.`;
  return fail("APP_BUSY", {
    problem,
    retryAfterMs,
    cause: `The app answered ${answered}.`,
  });
}

function badStatus(status: number): Refusal {
  return appFailed(`The backend answered ${status}, not 200.`);
}
