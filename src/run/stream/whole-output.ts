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
  // Joined many at once: to add each one alone would keep an object of 32 bytes for it.
  let texts: string[] = [];
  let bytes = 0;
  try {
    for (;;) {
      if (!streamTurns.mayGoOn()) await streamTurns.turn();
      const next = source.next();
      const text = next instanceof Promise ? await next : next;
      if (text === undefined) return whole + texts.join("");
      const more = Buffer.byteLength(text);
      bytes += more;
      if (bytes > bytesMax) throw appFailed(`The output has more than ${bytesMax} bytes.`);
      // The whole may take two bytes for each of these.
      if (!held.take(2 * more)) throw overloaded({ mayHaveRun: true });
      texts.push(text);
      if (texts.length < textsJoined) continue;
      whole += texts.join("");
      texts = [];
    }
  } catch (thrown) {
    if (thrown instanceof Refusal) source.cancel(thrown);
    throw thrown;
  } finally {
    await source.over;
  }
}

const textsJoined = 1_024;
