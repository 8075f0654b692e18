import type { Call, Principal } from "#src/auth/principal.ts";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";

/** A call as a method's work sees it, of a caller that named no deadline and sent no metadata. */
export function serviceCall(
  principal: Principal = { kind: "service" },
  signal: AbortSignal = new AbortController().signal,
): Call {
  return {
    principal,
    http: {
      requestId: "req-1",
      address: "127.0.0.1",
      header: () => undefined,
      rawHeaders: [],
      reservation: unlimitedReservation,
    },
    signal,
    timeoutMs: () => undefined,
    responseHeaders: new Headers(),
    responseTrailers: new Headers(),
    subject: {},
  };
}
