import { isUtf8 } from "node:buffer";
import type { JsonValue } from "@bufbuild/protobuf";
import { isJsonObject } from "#transcode/json-form.ts";
import { hasTooManyValues, jsonValuesMax } from "#transcode/json-text.ts";
import type { Reservation } from "../../http/handler.ts";
import { faultInText } from "../json-values.ts";
import { appFailed, type RunOutput, type StreamPiece } from "../runner.ts";
import { ByteBuffer } from "./byte-buffer.ts";

/**
 * Takes the body of an HTTP app's answer apart into the pieces of its messages, whatever the
 * chunks are in which the bytes arrive.
 */
export interface PieceDecoder {
  /**
   * The pieces of the messages that these bytes complete. An empty text is a sign of life, like a
   * comment. Read all of them before the next call. Throws APP_FAILED, after the pieces before it,
   * where the bytes are not what the app may answer.
   */
  decode(bytes: Buffer): Iterable<StreamPiece>;
  /**
   * The body has ended: the pieces of a message that the end completes. Throws APP_FAILED where the
   * body ends within a message.
   */
  end(): Iterable<StreamPiece>;
}

/**
 * The decoder for the type of an answer. Any type but those of streams is read as whole JSON, as
 * the answer of a run is: an app that can be run can be streamed. A message has at most `bytesMax`
 * bytes.
 */
export function createDecoder(
  contentType: string | string[] | undefined,
  bytesMax: number,
  reservation: Reservation,
  messages: MessageReader = ownFormat,
): PieceDecoder {
  const type = typeOf(contentType);
  if (type === eventStream) return new EventStreamDecoder(bytesMax, reservation, messages);
  if (jsonLines.includes(type)) return new JsonLinesDecoder(bytesMax, reservation, messages);
  return new WholeJsonDecoder(bytesMax, reservation, messages);
}

/** Finds text and JSON in the messages of one answer. Each method throws APP_FAILED. */
export interface MessageReader {
  /** What an answer that is one message gives. */
  readWhole(json: string): RunOutput;
  /**
   * What one of many messages gives: neither text nor JSON where it says nothing. `isOutput` where
   * it came as an event of the type `output`.
   */
  readPart(json: string, isOutput: boolean): RunOutput;
  /** The last of many messages was read: the JSON where it is known only then. */
  end(): Pick<RunOutput, "output">;
  /** Whether a message has said that it was the last. */
  readonly isDone: boolean;
}

/** Every message is an object with a string `text`, an `output` or both, or is the output. */
const ownFormat: MessageReader = {
  readWhole: (json) => ofMessage(json, messageIn(json)),
  readPart(json, isOutput) {
    return isOutput ? { output: outputIn(json, messageIn(json)) } : ofMessage(json, partIn(json));
  },
  end: () => ({}),
  isDone: false,
};

/** Whether this is the type of an answer that has many messages. */
export function isStreamType(contentType: string | string[] | undefined): boolean {
  return streamTypes.includes(typeOf(contentType));
}

const eventStream = "text/event-stream";
/** JSON lines have no registered type. These are the usual ones. */
const jsonLines = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/** The types of an answer that has many messages. */
export const streamTypes: readonly string[] = [eventStream, ...jsonLines];

function typeOf(contentType: string | string[] | undefined): string {
  // The usual type of a run's answer needs no parsing.
  if (typeof contentType !== "string" || contentType === "application/json") return "application/json";
  const [type = ""] = contentType.split(";", 1);
  return type.trim().toLowerCase();
}

/**
 * Reads `text/event-stream` as the WHATWG standard for server-sent events says. The data of each
 * event is a message. The fields `id` and `retry` mean nothing here, and no type of an event but
 * two: with `error` the app says that it failed, and with `output` it gives its JSON. The standard
 * drops an event that the end of the body cuts off; here that is a failure, as text would be
 * missing. An event has at most `bytesMax` bytes.
 */
export class EventStreamDecoder implements PieceDecoder {
  readonly #lines: LineReader;
  #isFirstLine = true;
  /** The data of the event, where it has any: bytes, so that a line costs no more than these. */
  readonly #data: ByteBuffer;
  #hasData = false;
  #type: "error" | "output" | undefined;
  readonly #messages: MessageReader;

  constructor(bytesMax: number, reservation?: Reservation, messages: MessageReader = ownFormat) {
    this.#messages = messages;
    this.#lines = new LineReader({ bytesMax, endsAtCr: true, reservation });
    const tooMany = `An event of the answer has more than ${bytesMax} bytes.`;
    this.#data = new ByteBuffer(bytesMax, tooMany, reservation);
  }

  *decode(bytes: Buffer): Generator<StreamPiece> {
    for (const read of this.#lines.read(bytes)) {
      const line = this.#withoutMark(read);
      if (line.byteLength === 0) {
        const { text, output } = this.#dispatch();
        yield text ?? "";
        if (output !== undefined) yield { output };
      } else if (line[0] === colonByte) yield "";
      else this.#readField(line);
    }
  }

  end(): Iterable<StreamPiece> {
    const rest = this.#withoutMark(this.#lines.rest());
    if (this.#hasData || !(rest.byteLength === 0 || rest[0] === colonByte)) {
      throw appFailed("The answer ended within an event.");
    }
    const { output } = this.#messages.end();
    return output === undefined ? [] : [{ output }];
  }

  /** The body may begin with a byte order mark. */
  #withoutMark(line: Buffer): Buffer {
    const isFirst = this.#isFirstLine;
    this.#isFirstLine = false;
    return isFirst && line.indexOf(byteOrderMark) === 0 ? line.subarray(byteOrderMark.byteLength) : line;
  }

  #readField(line: Buffer): void {
    const colon = line.indexOf(colonByte);
    const nameEnd = colon < 0 ? line.byteLength : colon;
    // Longer names mean nothing, and are not decoded.
    const name = nameEnd > namesBytesMax ? "" : line.toString("latin1", 0, nameEnd);
    if (name !== "data" && name !== "event") return;
    const valueStart = colon < 0 ? nameEnd : line[colon + 1] === space ? colon + 2 : colon + 1;
    const value = line.subarray(valueStart);
    if (name === "event") this.#type = eventTypes.find((type) => value.equals(Buffer.from(type)));
    else this.#append(value);
  }

  #append(value: Buffer): void {
    if (this.#hasData) this.#data.append(lineFeed);
    this.#hasData = true;
    this.#data.append(value);
  }

  #dispatch(): RunOutput {
    const hadData = this.#hasData;
    const type = this.#type;
    this.#hasData = false;
    this.#type = undefined;
    if (type === "error") throw errorOfApp();
    return hadData ? this.#messages.readPart(this.#data.take().toString(), type === "output") : {};
  }
}

const byteOrderMark = Buffer.from("\ufeff");
const lineFeed = Buffer.from("\n");
const eventTypes = ["error", "output"] as const;
const namesBytesMax = "event".length;
const colonByte = 0x3a;
const space = 0x20;

/**
 * Reads lines of JSON: a message a line, each of at most `bytesMax` bytes. An empty line
 * is a sign of life. The last line needs no line end.
 */
export class JsonLinesDecoder implements PieceDecoder {
  readonly #lines: LineReader;
  readonly #messages: MessageReader;

  constructor(bytesMax: number, reservation?: Reservation, messages: MessageReader = ownFormat) {
    this.#messages = messages;
    this.#lines = new LineReader({ bytesMax, endsAtCr: false, reservation });
  }

  *decode(bytes: Buffer): Generator<StreamPiece> {
    for (const line of this.#lines.read(bytes)) {
      const { text, output } = this.#read(line);
      yield text ?? "";
      if (output !== undefined) yield { output };
    }
  }

  *end(): Generator<StreamPiece> {
    yield* piecesOf(this.#read(this.#lines.rest()));
    const { output } = this.#messages.end();
    if (output !== undefined) yield { output };
  }

  #read(bytes: Buffer): RunOutput {
    if (bytes.byteLength === 0) return {};
    const line = bytes.toString();
    return emptyLine.test(line) ? {} : this.#messages.readPart(line, false);
  }
}

/** Without anything that JSON takes for more than whitespace. */
const emptyLine = /^[ \t\r]*$/;

/** Reads a body that is one message, of at most `bytesMax` bytes. */
export class WholeJsonDecoder implements PieceDecoder {
  readonly #body: ByteBuffer;
  readonly #messages: MessageReader;

  constructor(bytesMax: number, reservation?: Reservation, messages: MessageReader = ownFormat) {
    this.#messages = messages;
    this.#body = new ByteBuffer(bytesMax, `The answer has more than ${bytesMax} bytes.`, reservation);
  }

  decode(bytes: Buffer): Iterable<StreamPiece> {
    this.#body.append(bytes);
    return [];
  }

  end(): Iterable<StreamPiece> {
    const body = this.#body.take();
    // A byte order mark is kept: it is no JSON.
    if (!isUtf8(body)) throw notUtf8();
    return piecesOf(this.#messages.readWhole(body.toString()));
  }
}

/** The text of a message, which is empty where it has none, and then its JSON. */
function piecesOf({ text = "", output }: RunOutput): StreamPiece[] {
  return output === undefined ? [text] : [text, { output }];
}

/** One of many messages. With a member `error` the app says that it failed half-way. */
export function partIn(json: string): JsonValue {
  const message = messageIn(json);
  if (isJsonObject(message) && (message.error ?? null) !== null) throw errorOfApp();
  return message;
}

/** The refusal for an app that says in its stream that it failed. */
export function errorOfApp() {
  return appFailed("The app sent an error in its stream.");
}

function ofMessage(json: string, message: JsonValue): RunOutput {
  const output = readMessage(json, message);
  if (output === undefined) throw appFailed(`A message is not ${ownMessage}.`);
  return output;
}

/** What a message of Keyrun's own format is. */
export const ownMessage = "a JSON object with a string `text` or an `output`";

/**
 * What a message of Keyrun's own format gives; undefined for any other JSON. A `text` that is null
 * is none. Throws APP_FAILED where the output must not be passed on.
 */
export function readMessage(json: string, message: JsonValue): RunOutput | undefined {
  if (!isJsonObject(message)) return undefined;
  const { text, output } = message;
  if (typeof text !== "string" && (output === undefined || (text ?? null) !== null)) return undefined;
  const given = typeof text === "string" ? { text } : {};
  return output === undefined ? given : { ...given, output: outputIn(json, output, outputOf) };
}

const outputOf = (message: JsonValue) => (isJsonObject(message) ? message.output : undefined);

/**
 * Returns the value that was found in this JSON as an app's output. Throws APP_FAILED, which says
 * what is wrong with it and no word of it, where it must not be passed on.
 */
export function outputIn(
  json: string,
  output: JsonValue,
  find: (message: JsonValue) => JsonValue | undefined = (message) => message,
): JsonValue {
  const fault = faultInText(json, output, find);
  if (fault === undefined) return output;
  throw appFailed(`The app's \`output\` ${fault}`);
}

/**
 * What the JSON holds; undefined if it is no JSON. The parser's error quotes what the app sent,
 * which belongs to the team, so it is not kept as a cause. Throws APP_FAILED for JSON with more
 * values than may be read in one turn of the event loop.
 */
export function jsonIn(json: string): JsonValue | undefined {
  if (hasTooManyValues(json)) throw appFailed(`A message in JSON has more than ${jsonValuesMax} values.`);
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

export function messageIn(json: string): JsonValue {
  const message = jsonIn(json);
  if (message === undefined) throw appFailed("A message is not JSON.");
  return message;
}

/**
 * Cuts bytes into lines of strict UTF-8. A line may end with LF or CRLF, and with `endsAtCr` also
 * with CR alone. Each byte is looked at once for each kind of end, and only a line that is not
 * complete at the end of a chunk is copied.
 */
class LineReader {
  readonly #bytesMax: number;
  readonly #endsAtCr: boolean;
  readonly #unfinished: ByteBuffer;
  /** The last chunk ended with CR, so that an LF at the start of the next one belongs to it. */
  #skipsLf = false;

  constructor(how: { bytesMax: number; endsAtCr: boolean; reservation: Reservation | undefined }) {
    const { bytesMax, endsAtCr, reservation } = how;
    this.#bytesMax = bytesMax;
    this.#endsAtCr = endsAtCr;
    const tooMany = `A line of the answer has more than ${bytesMax} bytes.`;
    this.#unfinished = new ByteBuffer(bytesMax, tooMany, reservation);
  }

  /**
   * The lines that these bytes complete, each without its end and valid until the next call. Throws
   * APP_FAILED for a line of too many bytes, or one that is not UTF-8.
   */
  *read(chunk: Buffer): Generator<Buffer> {
    if (chunk.byteLength === 0) return;
    let position = this.#skipsLf && chunk[0] === lf ? 1 : 0;
    this.#skipsLf = false;
    // Each is looked for again only when it is passed.
    let nextLf = chunk.indexOf(lf, position);
    let nextCr = this.#endsAtCr ? chunk.indexOf(cr, position) : -1;
    while (nextLf >= 0 || nextCr >= 0) {
      const end = nextCr < 0 || (nextLf >= 0 && nextLf < nextCr) ? nextLf : nextCr;
      yield this.#completed(chunk.subarray(position, end));
      position = end + 1;
      if (end === nextCr) {
        if (position === chunk.byteLength) this.#skipsLf = true;
        else if (nextLf === position) position += 1;
      }
      if (nextLf >= 0 && nextLf < position) nextLf = chunk.indexOf(lf, position);
      if (nextCr >= 0 && nextCr < position) nextCr = chunk.indexOf(cr, position);
    }
    this.#unfinished.append(chunk.subarray(position));
  }

  /** The line that ends with these bytes. */
  #completed(bytes: Buffer): Buffer {
    if (this.#unfinished.isEmpty) return this.#checked(bytes);
    this.#unfinished.append(bytes);
    return this.#checked(this.#unfinished.take());
  }

  /** The line that no line end completes. Empty where there is none. */
  rest(): Buffer {
    return this.#checked(this.#unfinished.take());
  }

  #checked(line: Buffer): Buffer {
    if (line.byteLength > this.#bytesMax) {
      throw appFailed(`A line of the answer has more than ${this.#bytesMax} bytes.`);
    }
    if (!isUtf8(line)) throw notUtf8();
    return line;
  }
}

const lf = 0x0a;
const cr = 0x0d;

function notUtf8() {
  return appFailed("The answer is not UTF-8.");
}
