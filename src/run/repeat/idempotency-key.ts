import { bounds } from "../../bounds.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";

/** The name of the header, and of the metadata over gRPC and Connect. */
export const idempotencyHeader = "idempotency-key";

/** Set to "true" on an answer that came of an earlier request. */
export const replayedHeader = "idempotency-replayed";

const { idempotencyKeyCharactersMax: charactersMax } = bounds;

/**
 * Returns the key in a header's value, which may be quoted, as RFC 8941 has a string. Refuses a
 * value of another form, and so the two values of a header that was sent twice: they are joined by
 * a comma and a space.
 */
export function readIdempotencyKey(value: string): string {
  const key = value.startsWith('"') ? unquoted(value) : value;
  if (key !== undefined && key.length <= charactersMax && visible.test(key)) return key;
  throw refusal(`Send Idempotency-Key once, with 1 to ${charactersMax} visible ASCII characters.`);
}

/** Refuses a request that must not have a key: the words say why and what to do. */
export function refuseIdempotencyKey(call: { header(name: string): string | undefined }, why: string): void {
  if (call.header(idempotencyHeader) !== undefined) {
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
