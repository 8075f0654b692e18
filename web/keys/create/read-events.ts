import { bounds } from "../../bounds.ts";

/** One event of a stream of server-sent events. A comment is an event without data. */
interface StreamEvent {
  /** Empty for a message. */
  readonly name: string;
  readonly data: string;
}

/**
 * The events in a body, each as soon as its last byte is there, however the bytes are cut. Cancels
 * the body when the reader stops. Throws on an event over `testEventCharactersMax`.
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<StreamEvent> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (held + value).split("\n\n");
      held = blocks.pop() ?? "";
      for (const block of blocks) yield { name: fieldIn(block, "event"), data: fieldIn(block, "data") };
      if (held.length > bounds.testEventCharactersMax) throw new Error("An event is too long.");
    }
  } finally {
    // Rejects if the connection is lost already.
    await reader.cancel().catch(() => {});
  }
}

/** The value of a field, which Keyrun writes on one line; empty without it. */
function fieldIn(block: string, field: string): string {
  const start = `${field}: `;
  const line = block.split("\n").find((each) => each.startsWith(start));
  return line?.slice(start.length) ?? "";
}
