/**
 * What an app may answer in place of an output: that it refuses the run, with words for the caller,
 * or that it is busy, did nothing, and when to come again. Over HTTP and over gRPC the same. The
 * cause of each is a plain string: an app that says no is no fault of Keyrun's, so its log line has
 * no stack, and no word of the app's, which may repeat what it was sent.
 */

import { fromBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { type CleanWords, wordsIn } from "./app-words.ts";
import { runBounds } from "./run-bounds.ts";
import { appFailed } from "./runner.ts";

/** Whether the body of an answer with this status may say why the app refuses. */
export function mayRefuse(status: number): boolean {
  return status === 400 || status === 422;
}

/** The refusal of an app that answers with this status and body: in its words, if it has any. */
export function refusalIn(body: Buffer, status: number, clean: CleanWords): Refusal {
  const words = wordsIn(body);
  const refusal = words === undefined ? undefined : appRefused(words, clean, status);
  return refusal ?? badStatus(status, "Its body has no words for the caller");
}

/**
 * The refusal for an answer over HTTP with this status, by its head alone. A 429 says by itself
 * that nothing was done; with a 503 the app says so by `Retry-After`, whatever is in it.
 */
export function refusalOfHead(
  status: number,
  retryAfter: string | string[] | undefined,
  unixMs: () => number,
): Refusal {
  if (status !== 429 && (status !== 503 || retryAfter === undefined)) return badStatus(status);
  if (retryAfter === undefined) return appBusy(runBounds.appBusyMsMin, status);
  const [value = ""] = [retryAfter].flat();
  const waitMs = readRetryAfter(value.trim(), unixMs());
  if (!Number.isNaN(waitMs)) return appBusy(waitMs, status);
  return appBusy(runBounds.appBusyMsMin, `${status}, with a Retry-After that can't be read`);
}

/** The wait in seconds, or until a date (RFC 9110, section 10.2.3). NaN for all else. */
function readRetryAfter(value: string, nowMs: number): number {
  if (/^\d+(?:\.\d+)?$/.test(value)) return Number(value) * 1_000;
  return readHttpDate(value, nowMs) - nowMs;
}

/** In one of the three forms of RFC 9110, section 5.6.7; NaN for all else. */
function readHttpDate(value: string, nowMs: number): number {
  if (imfDate.test(value)) return Date.parse(value);
  // C's form says no zone, and means UTC.
  if (ascDate.test(value)) return Date.parse(`${value} GMT`);
  const [, day = "", month = "", year = "", time = ""] = rfc850Date.exec(value) ?? [];
  if (year === "") return Number.NaN;
  const thisYear = new Date(nowMs).getUTCFullYear();
  const nearYear = thisYear - (thisYear % 100) + Number(year);
  // What would be more than 50 years to come is of the century before.
  const fullYear = nearYear > thisYear + 50 ? nearYear - 100 : nearYear;
  return Date.parse(`${day} ${month} ${fullYear} ${time} GMT`);
}

const imfDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const rfc850Date = /^[A-Z][a-z]{5,8}, (\d{2})-([A-Z][a-z]{2})-(\d{2}) (\d{2}:\d{2}:\d{2}) GMT$/;
const ascDate = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

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

/** The wait of a RetryInfo, the shortest where it says none; undefined where there is none. */
function readRetryInfo(trailer: Buffer): number | undefined {
  const found = detailsIn(trailer).find(({ typeUrl }) => typeUrl.endsWith(`/${RetryInfoSchema.typeName}`));
  if (found === undefined) return undefined;
  try {
    const { seconds, nanos } = fromBinary(RetryInfoSchema, found.value).retryDelay ?? noDelay;
    return Number(seconds) * 1_000 + nanos / 1e6;
  } catch {
    return runBounds.appBusyMsMin;
  }
}

const noDelay = { seconds: 0n, nanos: 0 };

function detailsIn(trailer: Buffer) {
  try {
    return fromBinary(StatusSchema, trailer).details;
  } catch {
    return [];
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

function badStatus(status: number, why = statusWords(status)): Refusal {
  return appFailed(`The backend answered ${status}, not 200${why && `. ${why}`}.`);
}

/** What such a status most often means for a run. */
function statusWords(status: number): string {
  if (status > 300 && status < 400) return "It redirects, and Keyrun follows no redirect";
  return wordsOfStatus[status] ?? (status >= 500 ? "It failed inside: its own log says why" : "");
}

const wordsOfStatus: Readonly<Record<number, string>> = {
  401: "It does not take the headers that it is given",
  403: "It does not take the headers that it is given",
  404: "It has nothing at the path of the app's URL",
  405: "It takes no POST at the path of the app's URL",
  503: "It names no Retry-After, so it may have begun",
};
