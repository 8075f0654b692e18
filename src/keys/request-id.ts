import { fail } from "../refusal/refusal.ts";

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The `request_id` of a call that makes a key; null if it has none. */
export function readRequestId(value: string): string | null {
  const requestId = value.toLowerCase();
  if (requestId === "") return null;
  if (uuidForm.test(requestId)) return requestId;
  throw fail("INVALID_ARGUMENT", { param: "request_id", problem: "request_id must be a UUID, or empty." });
}
