import { bounds } from "../../bounds.ts";
import { readEvents } from "./read-events.ts";
import { problemIn, readAnswer, send, type TestAnswer, type TestRun } from "./send-test-request.ts";

/** What has come of a test stream so far. */
export interface TestStream {
  readonly status: number;
  readonly rateLimit: string | null;
  /** The pieces of text in their order, together at most `shownAnswerCharactersMax` characters. */
  readonly pieces: readonly string[];
  /** Whether more text has come than the pieces hold. */
  readonly cut: boolean;
  /** `broken`: the connection ended, or was silent, before the stream said that it had ended. */
  readonly state: "open" | "ended" | "stopped" | "broken" | "failed";
  /** Why the stream failed, in Keyrun's words; null otherwise. */
  readonly problem: string | null;
}

/**
 * Runs the app once with the key, as a program would that reads its text as it comes. `onChange` is
 * called with each change of the stream. Resolves with the answer when the request was refused,
 * else at the stream's end. Resolves with null when no answer came. It never rejects.
 */
export async function sendTestStream(
  fetch: typeof globalThis.fetch,
  run: TestRun,
  options: {
    readonly signal: AbortSignal;
    onChange(stream: TestStream): void;
  },
): Promise<TestAnswer | TestStream | null> {
  const { signal, onChange } = options;
  const silence = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), bounds.testSilenceMsMax);
  };
  let stream: TestStream | null = null;
  const change = (changes: Partial<TestStream>) => {
    if (stream === null) return;
    stream = { ...stream, ...changes };
    onChange(stream);
  };
  try {
    heard();
    const response = await send(fetch, "stream", run, AbortSignal.any([signal, silence.signal]));
    if (!response.ok || response.body === null) return await readAnswer(response);
    stream = {
      ...{ status: response.status, rateLimit: response.headers.get("RateLimit") },
      ...{ pieces: [], cut: false, state: "open", problem: null },
    };
    change({});
    for await (const { name, data } of readEvents(response.body)) {
      heard();
      if (name === "end") change({ state: "ended" });
      else if (name === "error") change({ state: "failed", problem: problemIn(data) });
      else if (data !== "") change(withText(stream, textIn(data)));
    }
  } catch {
    // The connection was lost or given up, or what came is no stream of Keyrun.
  } finally {
    clearTimeout(timer);
  }
  if (stream?.state === "open") change({ state: signal.aborted ? "stopped" : "broken" });
  return stream;
}

function textIn(data: string): string {
  return JSON.parse(data).delta?.text ?? "";
}

/** Adds as much of the text as there is room for. */
function withText({ pieces, cut }: TestStream, text: string): Partial<TestStream> {
  if (text === "" || cut) return {};
  const room = bounds.shownAnswerCharactersMax - pieces.reduce((sum, piece) => sum + piece.length, 0);
  return { pieces: [...pieces, text.slice(0, room)], cut: text.length > room };
}
