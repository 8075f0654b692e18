import { type HeldBytes, overloaded } from "../../limit/byte-budget.ts";
import { streamTurns } from "../../limit/stream-turns.ts";
import { Refusal } from "../../refusal/refusal.ts";
import { appFailed } from "../backend-runner.ts";
import type { PieceSource } from "./piece-source.ts";

/**
 * The whole output of an app that streams, of at most `bytesMax` bytes of UTF-8. Settles after the
 * exchange is over.
 */
export async function wholeOutput(source: PieceSource, bytesMax: number, held: HeldBytes): Promise<string> {
  let whole = "";
  let bytes = 0;
  try {
    for (;;) {
      if (!streamTurns.mayGoOn()) await streamTurns.turn();
      const next = source.next();
      const text = next instanceof Promise ? await next : next;
      if (text === undefined) return whole;
      const more = Buffer.byteLength(text);
      bytes += more;
      if (bytes > bytesMax) throw appFailed(`The output has more than ${bytesMax} bytes.`);
      // The whole may take two bytes for each of these.
      if (!held.take(2 * more)) throw overloaded({ mayHaveRun: true });
      whole += text;
    }
  } catch (thrown) {
    if (thrown instanceof Refusal) source.cancel(thrown);
    throw thrown;
  } finally {
    await source.over;
  }
}
