// The header Idempotency-Key, and what of it is kept.

import { createHash } from "node:crypto";
import type { Call } from "../../auth/principal.ts";
import { withoutSecret } from "../../base/fields.ts";
import { bounds } from "../../bounds.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import type { RunInput } from "../runner.ts";
import type { RunRecord } from "./run-store.ts";

/** The name of the header, and of the metadata over gRPC and Connect. */
export const idempotencyHeader = "idempotency-key";

/** Set to "true" on an answer that came of an earlier request. */
export const replayedHeader = "idempotency-replayed";

/**
 * What is kept of the key in this value of the header. Its scope is the team and the id of the app:
 * also an app that was deleted and made anew is not started twice for one key. The key itself is
 * not kept: it may name an order, or a person. Throws INVALID_ARGUMENT for one of the wrong form.
 */
export function claimOf(
  value: string,
  request: RunInput & { readonly teamId: string; readonly appId: string },
): Pick<RunRecord, "keyHash" | "fingerprint"> {
  const { teamId, appId } = request;
  const scoped = JSON.stringify([teamId, appId, readIdempotencyKey(value)]);
  return {
    keyHash: createHash("sha256").update(scoped).digest("base64url"),
    fingerprint: fingerprintOf(request),
  };
}

/**
 * A digest of app and input. The order of members does not count, nor how a number is written. An
 * app's id has no space, so no text has the fingerprint of an input with JSON.
 */
function fingerprintOf({ appId, text, input }: RunInput & { readonly appId: string }): string {
  const hash = createHash("sha256");
  if (input === undefined) hash.update(`${appId}\n`).update(text ?? "");
  else hash.update(`${appId} input\n`).update(JSON.stringify({ text, input }, sorted));
  return hash.digest("base64url");
}

/** For `JSON.stringify`: an object's members in one order. */
function sorted(_name: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const members = new Map(Object.entries(value));
  return Object.fromEntries([...members.keys()].sort().map((name) => [name, members.get(name)]));
}

const { idempotencyKeyCharactersMax: charactersMax } = bounds;

/**
 * Returns the key in a header's value, which may be quoted, as RFC 8941 has a string. Refuses a
 * value of another form, and so the two values of a header that was sent twice: they are joined by
 * a comma and a space.
 */
function readIdempotencyKey(value: string): string {
  const key = value.startsWith('"') ? unquoted(value) : value;
  if (key !== undefined && key.length <= charactersMax && visible.test(key)) {
    return withoutSecret(key, "Idempotency-Key");
  }
  throw refusal(`Send Idempotency-Key once, with 1 to ${charactersMax} visible ASCII characters.`);
}

/** Refuses a request that must not have a key: the words say why and what to do. */
export function refuseIdempotencyKey({ http }: Pick<Call, "http">, why: string): void {
  if (http.header(idempotencyHeader) !== undefined) {
    throw refusal(`${why} Send the request without Idempotency-Key.`);
  }
}

function refusal(problem: string): Refusal {
  return fail("INVALID_ARGUMENT", { param: "Idempotency-Key", problem });
}

function unquoted(value: string): string | undefined {
  const inner = quoted.exec(value)?.[1];
  return inner?.replace(/\\(.)/g, "$1");
}

const visible = /^[!-~]+$/;
const quoted = /^"((?:[^"\\]|\\["\\])*)"$/;
