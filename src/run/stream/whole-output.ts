import { Refusal } from "../../refusal/refusal.ts";
import { appFailed } from "../backend-runner.ts";
import type { PieceSource } from "./piece-source.ts";

/**
 * The whole output of an app that streams, of at most `bytesMax` bytes of UTF-8. Settles after the
 * exchange is over.
 */
export async function wholeOutput(source: PieceSource, bytesMax: number): Promise<string> {
  let whole = "";
  let bytes = 0;
  try {
    for (;;) {
      const text = await source.next();
      if (text === undefined) return whole;
      bytes += Buffer.byteLength(text);
      if (bytes > bytesMax) throw appFailed(`The output has more than ${bytesMax} bytes.`);
      whole += text;
    }
  } catch (thrown) {
    if (thrown instanceof Refusal) source.cancel(thrown);
    throw thrown;
  } finally {
    await source.over;
  }
}
