import { ServerResponse } from "node:http";
import { Http2ServerResponse } from "node:http2";

/** What one answer was given in one turn of the event loop. */
export interface TurnWrites {
  readonly turn: number;
  bytes: number;
  writes: number;
}

/**
 * Counts the turns of this process's event loop, and what each stream is given in each of them. The
 * loop does not sleep meanwhile, so that every turn is one pass. Streams that together write more
 * than `bytesMax` in one turn fail, so that a test of a loop that they hold up comes to its end.
 */
export function countTurns({ bytesMax }: { bytesMax: number }) {
  let turn = 0;
  let inTurn = { turn, bytes: 0 };
  let mostBytes = 0;
  const perAnswer = new Map<object, TurnWrites[]>();
  const note = (answer: ServerResponse | Http2ServerResponse, chunk: unknown) => {
    if (!/stream/i.test(answer.req.url ?? "")) return;
    const all = perAnswer.get(answer) ?? [];
    perAnswer.set(answer, all);
    if (all.at(-1)?.turn !== turn) all.push({ turn, bytes: 0, writes: 0 });
    const last = all.at(-1);
    if (last === undefined) return;
    const bytes = Buffer.byteLength(chunk as Uint8Array);
    last.bytes += bytes;
    last.writes += 1;
    if (inTurn.turn !== turn) inTurn = { turn, bytes: 0 };
    inTurn.bytes += bytes;
    mostBytes = Math.max(mostBytes, inTurn.bytes);
    if (inTurn.bytes > bytesMax) throw new Error(`the streams wrote over ${bytesMax} bytes in one turn`);
  };
  const restore = [ServerResponse.prototype, Http2ServerResponse.prototype].map((proto) => {
    const write: unknown = Reflect.get(proto, "write");
    if (typeof write !== "function") throw new Error("an answer is not written to");
    Reflect.set(proto, "write", function noted(this: ServerResponse, ...args: unknown[]) {
      note(this, args[0]);
      return write.apply(this, args);
    });
    return () => Reflect.set(proto, "write", write);
  });
  let next = setImmediate(function count() {
    turn += 1;
    next = setImmediate(count);
  });
  return {
    /** The most bytes that all streams together were given in one turn. */
    mostBytes: () => mostBytes,
    /** How many turns the work takes. */
    async of(work: () => Promise<unknown>): Promise<number> {
      const from = turn;
      await work();
      return turn - from;
    },
    /** Returns what the streams were given, and forgets it. */
    take(): TurnWrites[][] {
      const all = [...perAnswer.values()];
      perAnswer.clear();
      return all;
    },
    [Symbol.dispose]() {
      clearImmediate(next);
      for (const each of restore) each();
    },
  };
}
