import { type DescMessage, type Message, toBinary, toJsonString } from "@bufbuild/protobuf";
import type { ShortTexts } from "../../http/short-texts.ts";
import { prefixBytes } from "../grpc/frame.ts";

/**
 * The frames of messages that are there together, in the form that Connect and gRPC share. Connect
 * passes each message through a dozen async iterators, which costs a hundred times as much. It
 * leaves messages of this size uncompressed, as these are.
 */
export class ShortFrames {
  readonly #messages: ShortTexts<Message>;
  readonly #output: DescMessage;
  readonly #aroundJson: readonly [string, string] | undefined;
  /** What stands before a text in binary, by the text's bytes: its prefix, tags and lengths. */
  readonly #heads: Buffer[] = [];

  constructor(messages: ShortTexts<Message>, output: DescMessage, contentType: string) {
    this.#messages = messages;
    this.#output = output;
    if (contentType.endsWith("json")) this.#aroundJson = this.#splitJson();
  }

  /** Takes the messages that are there. Undefined if none is. */
  take(): Uint8Array | undefined {
    let text = this.#messages.takeShortText();
    if (text === undefined) return undefined;
    const frames = Buffer.allocUnsafe(joinedBytesMax + frameBytesMax);
    let at = 0;
    while (text !== undefined) {
      at = this.#aroundJson ? writeJson(frames, at, text, this.#aroundJson) : this.#write(frames, at, text);
      text = at < joinedBytesMax ? this.#messages.takeShortText() : undefined;
    }
    return frames.subarray(0, at);
  }

  #write(frames: Buffer, at: number, text: string): number {
    const bytes = Buffer.byteLength(text);
    const head = this.#heads[bytes] ?? this.#newHead(bytes);
    frames.set(head, at);
    const start = at + head.length;
    if (bytes === text.length && bytes < looped) {
      for (let n = 0; n < bytes; n++) frames[start + n] = text.charCodeAt(n);
    } else frames.write(text, start);
    return start + bytes;
  }

  #newHead(bytes: number): Buffer {
    const sample = sampleUnit.repeat(bytes);
    const message = toBinary(this.#output, this.#messages.withText(sample));
    const before = message.length - bytes;
    const isLast = Buffer.from(message.subarray(before)).equals(Buffer.from(sample));
    if (!isLast) throw new Error(`the text is not the last of ${this.#output.typeName}`);
    const head = Buffer.concat([Buffer.alloc(prefixBytes), message.subarray(0, before)]);
    head.writeUInt32BE(message.length, 1);
    this.#heads[bytes] = head;
    return head;
  }

  #splitJson(): readonly [string, string] {
    const json = toJsonString(this.#output, this.#messages.withText(sampleUnit), {
      alwaysEmitImplicit: true,
    });
    const [before, after] = json.split(JSON.stringify(sampleUnit));
    if (before === undefined || after === undefined) throw new Error("the message does not hold its text");
    return [before, after];
  }
}

function writeJson(
  frames: Buffer,
  at: number,
  text: string,
  [before, after]: readonly [string, string],
): number {
  const length = frames.write(before + JSON.stringify(text) + after, at + prefixBytes);
  frames[at] = 0;
  frames.writeUInt32BE(length, at + 1);
  return at + prefixBytes + length;
}

/** From this length on, no more is joined. A reader that stops costs the memory of one of these. */
const joinedBytesMax = 14 * 1024;
/** More than a short text can take: in JSON six bytes for each of its units. */
const frameBytesMax = 2 * 1024;
/** Shorter texts are written faster unit by unit. */
const looped = 24;
/** Nothing else of a message has it. */
const sampleUnit = "\u0001";
