import type { JsonValue } from "@bufbuild/protobuf";
import type { TemplateRecord } from "../apps/app-store.ts";
import { type JsonPointer, memberOf, readJsonPointer, valueAt } from "../base/json-pointer.ts";
import { appFailed, type RunOutput } from "./runner.ts";
import { errorOfApp, type MessageReader, messageIn, outputIn, partIn } from "./stream/piece-decoder.ts";

/**
 * Finds text and JSON in the answers of an app with a format of its own, by the pointers of its
 * template. What it refuses with APP_FAILED names the pointer that missed, and no word of the app.
 */
export class AnswerTemplate {
  /** To the text of a whole answer, and of a message of a stream; undefined where none is read. */
  readonly #whole: JsonPointer | undefined;
  readonly #part: JsonPointer | undefined;
  /** To the JSON; undefined where none is read. */
  readonly #output: JsonPointer | undefined;
  /** The member and its value in the messages that have text; undefined where all have. */
  readonly #event: readonly [string, string] | undefined;

  constructor({ textAt, outputAt, streamTextAt, streamEvent }: TemplateRecord) {
    this.#output = outputAt === undefined ? undefined : pointerTo(outputAt);
    const defaultAt = this.#output ? "" : "/text";
    this.#whole = pointerUnlessEmpty(textAt || defaultAt);
    this.#part = pointerUnlessEmpty(streamTextAt) ?? this.#whole;
    const equals = streamEvent.indexOf("=");
    this.#event = equals < 0 ? undefined : [streamEvent.slice(0, equals), streamEvent.slice(equals + 1)];
  }

  /** What an answer must be, in words. */
  get wanted(): string {
    const text = this.#whole ? ` with a string at ${this.#whole.at}` : "";
    return `It must be JSON${text}${this.#output?.at ? ` with a value at ${this.#output.at}` : ""}`;
  }

  /** What a whole answer gives, which was parsed from this JSON. */
  readWhole(json: string, answer: JsonValue): RunOutput {
    const text = this.#whole && textIn(answer, this.#whole);
    if (!this.#output) return { text };
    const output = this.#valueIn(answer);
    if (output !== undefined) return { text, output: this.#checked(json, output) };
    const { at } = this.#output;
    throw appFailed(`The answer has no value at ${at} (output_at): there is no ${missedIn(answer, at)}.`);
  }

  /** The JSON in a message. */
  #valueIn = (message: JsonValue): JsonValue | undefined => {
    // A part of JSON is JSON.
    return this.#output && (valueAt(message, this.#output) as JsonValue | undefined);
  };

  #checked(json: string, output: JsonValue): JsonValue {
    return outputIn(json, output, this.#valueIn);
  }

  /** The text of a message of a stream; undefined where it says nothing. */
  #textOfPart(message: JsonValue): string | undefined {
    if (this.#event) {
      const [member, value] = this.#event;
      const event = memberOf(message, member);
      if (event === "error" && value !== "error") throw errorOfApp();
      if (event !== value) return undefined;
    }
    const text = this.#part && valueAt(message, this.#part);
    return typeof text === "string" ? text : undefined;
  }

  /** Reads the messages of one answer. The output is that of the last message which has one. */
  messages(): MessageReader {
    let isDone = false;
    let hasText = false;
    let last: { readonly json: string; readonly output: JsonValue } | undefined;
    const end = (): RunOutput => {
      if (last) return { output: this.#checked(last.json, last.output) };
      if (hasText) return {};
      throw appFailed(this.#nothingFound());
    };
    return {
      readWhole: (json) => this.readWhole(json, messageIn(json)),
      readPart: (json) => {
        if (isDone) return {};
        isDone = json.trim() === "[DONE]";
        if (isDone) return end();
        const message = partIn(json);
        const text = this.#textOfPart(message);
        const output = this.#valueIn(message);
        hasText ||= text !== undefined;
        if (output !== undefined) last = { json, output };
        return { text };
      },
      end,
      get isDone() {
        return isDone;
      },
    };
  }

  #nothingFound(): string {
    const event = this.#event ? ` and ${this.#event.join("=")} (stream_event)` : "";
    const wanted = [
      ...(this.#part ? [`a string at ${this.#part.at} (stream_text_at)${event}`] : []),
      ...(this.#output ? [`a value at ${this.#output.at} (output_at)`] : []),
    ];
    return `No message of the stream has ${wanted.join(", or ")}.`;
  }
}

function pointerUnlessEmpty(at: string): JsonPointer | undefined {
  return at === "" ? undefined : pointerTo(at);
}

/** A pointer that has passed `readTemplate`. */
function pointerTo(at: string): JsonPointer {
  return readJsonPointer(at) ?? { at, steps: [] };
}

function textIn(answer: JsonValue, pointer: JsonPointer): string {
  const text = valueAt(answer, pointer);
  if (typeof text === "string") return text;
  const type = text === null ? "null" : `of type ${typeof text}`;
  const why = text === undefined ? `there is no ${missedIn(answer, pointer.at)}` : `it is ${type}`;
  throw appFailed(`The answer has no string at ${pointer.at} (text_at): ${why}.`);
}

/** The shortest beginning of the pointer that leads to nothing. */
function missedIn(answer: unknown, pointer: string): string {
  const names = pointer.split("/");
  const begins = names.map((_, index) => names.slice(0, index + 1).join("/"));
  return begins.find((begin) => valueAt(answer, pointerTo(begin)) === undefined) ?? pointer;
}
