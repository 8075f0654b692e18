/** Writes many short messages of a stream as fast as one, where they are there together. */

export interface FrameForm<Message> {
  /** The bytes of one message, with all that stands around it. */
  readonly frameOf: (message: Message) => Uint8Array;
  /** A text as it stands in its frame, in UTF-8. */
  readonly written: (text: string) => string;
}

interface Around {
  readonly before: Uint8Array;
  readonly after: Uint8Array;
  /** For `#writePlain`, a frame with another text: to copy it costs less than to copy two parts. */
  readonly whole: Uint8Array;
}

/**
 * The frames of messages that are there together. They differ only in their texts, so each is
 * written as the bytes that stand before every text of its length, the text, and those behind it.
 */
export class ShortFrames<Message> {
  readonly #messages: ShortTexts<Message>;
  readonly #form: FrameForm<Message>;
  /** By the bytes that the text takes, because a frame may tell its length. */
  readonly #around: Around[] = [];

  constructor(messages: ShortTexts<Message>, form: FrameForm<Message>) {
    this.#messages = messages;
    this.#form = form;
  }

  /** Takes the messages that are there, and returns this frame with theirs behind it. */
  joinTo(first: Uint8Array): Uint8Array {
    let text = first.length < joinedBytesMax ? this.#messages.takeShortText() : undefined;
    if (text === undefined) return first;
    const frames = Buffer.allocUnsafe(joinedBytesMax + frameBytesMax);
    frames.set(first);
    let at = first.length;
    while (text !== undefined) {
      at = this.#writePlain(frames, at, text) ?? this.#write(frames, at, text);
      text = at < joinedBytesMax ? this.#messages.takeShortText() : undefined;
    }
    return frames.subarray(0, at);
  }

  /** The same as `#write`, for less. Undefined if the text may take other bytes in the frame. */
  #writePlain(frames: Buffer, at: number, text: string): number | undefined {
    if (text.length > loopedMax) return undefined;
    const { before, whole } = this.#around[text.length] ?? this.#newAround(text.length);
    frames.set(whole, at);
    const start = at + before.length;
    for (let n = 0; n < text.length; n++) {
      const unit = text.charCodeAt(n);
      if (unit < 0x20 || unit > 0x7e || unit === quote || unit === backslash) return undefined;
      frames[start + n] = unit;
    }
    return at + whole.length;
  }

  #write(frames: Buffer, at: number, text: string): number {
    const written = this.#form.written(text);
    const bytes = Buffer.byteLength(written);
    const { before, after } = this.#around[bytes] ?? this.#newAround(bytes);
    frames.set(before, at);
    const end = at + before.length + frames.write(written, at + before.length);
    frames.set(after, end);
    return end + after.length;
  }

  /** Two frames show which of their bytes are the text's. */
  #newAround(bytes: number): Around {
    const frameOf = (unit: string) => this.#form.frameOf(this.#messages.withText(unit.repeat(bytes)));
    const [frame, other] = [frameOf("a"), frameOf("b")];
    const start = frame.findIndex((byte, n) => byte !== other[n]);
    const before = new Uint8Array(frame.subarray(0, start));
    const after = new Uint8Array(frame.subarray(start + bytes));
    const around = { before, after, whole: bytes > loopedMax ? before : new Uint8Array(frame) };
    this.#around[bytes] = around;
    return around;
  }
}

/** From this length on, no more is joined. A reader that stops costs the memory of one of these. */
const joinedBytesMax = 14 * 1024;
/** More than a short text can take: in JSON six bytes for each of its units. */
const frameBytesMax = 2 * 1024;
/** Shorter texts are written faster unit by unit. */
const loopedMax = 24;
const quote = 0x22;
const backslash = 0x5c;

/**
 * Messages of which many may be there at once, and which then differ in nothing but a short text.
 * To encode them together costs a hundredth of what each costs alone.
 */
export interface ShortTexts<Message> extends AsyncIterable<Message> {
  /**
   * Takes the text of the next message, if that is there already and its text is short: 1 to
   * `shortTextMax` UTF-16 code units, well-formed. Undefined if not, and where others wait for
   * their turn: the next message then comes by iteration. Call it only while nobody waits for one.
   */
  takeShortText(): string | undefined;
  /** The message with this text. */
  withText(text: string): Message;
}

export const shortTextMax = 256;

export function hasShortTexts<Message>(messages: AsyncIterable<unknown>): messages is ShortTexts<Message> {
  return "takeShortText" in messages;
}
