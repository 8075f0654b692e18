import { parseTimeoutMs } from "../grpc/timeout.ts";

/** The longest time of a timer of Node. A longer one is over at once, with a warning. */
const timerSecondsMax = Math.floor((2 ** 31 - 1) / 1_000);

/**
 * Shortens a caller's timeout that is longer than a timer can be, because Connect starts a timer
 * for it. Any other value stays as it is, also one that Connect refuses.
 */
export function shortenTimeouts(headers: Headers): void {
  const grpcMs = parseTimeoutMs(headers.get("grpc-timeout") ?? "") ?? 0;
  if (grpcMs > timerSecondsMax * 1_000) headers.set("grpc-timeout", `${timerSecondsMax}S`);
  const connectMs = /^\d{10}$/.exec(headers.get("connect-timeout-ms") ?? "")?.[0] ?? "0";
  if (Number(connectMs) > timerSecondsMax * 1_000) headers.set("connect-timeout-ms", `${timerSecondsMax}000`);
}
