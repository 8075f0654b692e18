// A process that asks the guard of the app `guarded` as fast as it is answered, over kept
// connections. It gets its keys as messages, and that one was revoked; it sends what it has seen of
// each second. Arguments: port and connections.
import { connect, type Socket } from "node:net";

/** What the process is told: a new key, or that the revocation of this key was answered. */
export interface GuardOrder {
  readonly use?: string;
  readonly revoked?: string;
}

/** What it has seen of one second. */
export interface GuardedSecond {
  readonly accepted: number;
  /** Refused as revoked, of requests that were sent after the revocation's OK. */
  readonly refused: number;
  /** Accepted, though sent after that: there must be none. */
  readonly wrong: number;
  /** Answers 503: a busy machine made the event loop late. */
  readonly unavailable: number;
  /** Any other answer. */
  readonly other: number;
  readonly p99Ms: number;
}

const [port, connections] = process.argv.slice(2).map(Number);
/** How often a key is used after its revocation. */
const usesAfter = 20;
const keys: { readonly value: string; usesLeft: number }[] = [];
let turn = 0;
let counts = { accepted: 0, refused: 0, wrong: 0, unavailable: 0, other: 0 };
let latencies: number[] = [];

process.on("message", ({ use, revoked }: GuardOrder) => {
  if (use !== undefined) keys.push({ value: use, usesLeft: Number.POSITIVE_INFINITY });
  const known = keys.find(({ value }) => value === revoked);
  if (known) known.usesLeft = usesAfter;
  if (use !== undefined && keys.length === 1) {
    for (let n = 0; n < (connections ?? 1); n += 1)
      ask(connect({ port: port!, host: "127.0.0.1", noDelay: true }));
  }
});
process.on("disconnect", () => process.exit());

setInterval(() => {
  latencies.sort((a, b) => a - b);
  process.send?.({
    ...counts,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
  } satisfies GuardedSecond);
  counts = { accepted: 0, refused: 0, wrong: 0, unavailable: 0, other: 0 };
  latencies = [];
}, 1_000);

function nextKey() {
  turn = (turn + 1) % keys.length;
  const key = keys[turn]!;
  const wasRevoked = Number.isFinite(key.usesLeft);
  if (wasRevoked) key.usesLeft -= 1;
  if (key.usesLeft <= 0) keys.splice(turn, 1);
  return { value: key.value, wasRevoked };
}

/** One request after the other. */
function ask(socket: Socket): void {
  let wasRevoked = false;
  let sentMs = 0;
  let heard = "";
  const send = () => {
    const key = nextKey();
    wasRevoked = key.wasRevoked;
    sentMs = performance.now();
    socket.write(
      `GET /api/apps/guarded/guard/orders/${turn} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.value}\r\n\r\n`,
    );
  };
  socket.on("connect", send);
  socket.on("error", () => process.exit(1));
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1");
    const head = heard.indexOf("\r\n\r\n");
    const length = Number(/content-length: (\d+)/i.exec(heard)?.[1]);
    if (head < 0 || heard.length < head + 4 + length) return;
    latencies.push(performance.now() - sentMs);
    const status = heard.slice(9, 12);
    if (status === "200") counts[wasRevoked ? "wrong" : "accepted"] += 1;
    else if (status === "401" && heard.includes("revoked_api_key")) counts.refused += wasRevoked ? 1 : 0;
    else if (status === "503") counts.unavailable += 1;
    else counts.other += 1;
    const isLast = /^connection: close/im.test(heard.slice(0, head));
    heard = "";
    if (!isLast) return send();
    socket.destroy();
    ask(connect({ port: port!, host: "127.0.0.1", noDelay: true }));
  });
}
