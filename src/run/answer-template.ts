import type { JsonValue } from "@bufbuild/protobuf";
import type { TemplateRecord } from "../apps/app-store.ts";
import { appFailed, type RunOutput } from "./runner.ts";
import { errorOfApp, type MessageReader, messageIn, partIn } from "./stream/piece-decoder.ts";

/**
 * Finds the text in the answers of an app with a format of its own, by the pointers of its
 * template. What it refuses with APP_FAILED names the pointer that missed, and no word of the app.
 */
export class AnswerTemplate {
  readonly #whole: Pointer;
  readonly #part: Pointer;
  /** The member and its value in the messages that have text; undefined where all have. */
  readonly #event: readonly [string, string] | undefined;

  constructor({ textAt, streamTextAt, streamEvent }: TemplateRecord) {
    this.#whole = readPointer(textAt || "/text");
    this.#part = streamTextAt === "" ? this.#whole : readPointer(streamTextAt);
    const equals = streamEvent.indexOf("=");
    this.#event = equals < 0 ? undefined : [streamEvent.slice(0, equals), streamEvent.slice(equals + 1)];
  }

  /** What an answer must be, in words. */
  get wanted(): string {
    return `It must be JSON with a string at ${this.#whole.at}`;
  }

  /** What a whole answer gives, which was parsed from this JSON. */
  readWhole(_json: string, answer: JsonValue): RunOutput {
    const text = valueAt(answer, this.#whole);
    if (typeof text === "string") return { text };
    const type = text === null ? "null" : `of type ${typeof text}`;
    const why = text === undefined ? `there is no ${missedIn(answer, this.#whole.at)}` : `it is ${type}`;
    throw appFailed(`The answer has no string at ${this.#whole.at} (text_at): ${why}.`);
  }

  /** The text of a message of a stream; undefined where it says nothing. */
  #textOfPart(message: unknown): string | undefined {
    if (this.#event) {
      const [member, value] = this.#event;
      const event = memberOf(message, member);
      if (event === "error" && value !== "error") throw errorOfApp();
      if (event !== value) return undefined;
    }
    const text = valueAt(message, this.#part);
    return typeof text === "string" ? text : undefined;
  }

  /** Reads the messages of one answer. */
  messages(): MessageReader {
    let isDone = false;
    let hasText = false;
    const end = () => {
      if (hasText) return;
      const event = this.#event ? ` and ${this.#event.join("=")} (stream_event)` : "";
      throw appFailed(`No message of the stream has a string at ${this.#part.at} (stream_text_at)${event}.`);
    };
    return {
      readWhole: (json) => this.readWhole(json, messageIn(json)),
      readPart: (json) => {
        if (isDone) return {};
        isDone = json.trim() === "[DONE]";
        if (isDone) end();
        const text = isDone ? undefined : this.#textOfPart(partIn(json));
        hasText ||= text !== undefined;
        return { text };
      },
      end,
      get isDone() {
        return isDone;
      },
    };
  }
}

interface Pointer {
  readonly at: string;
  readonly steps: readonly string[];
}

/** A JSON Pointer (RFC 6901). */
function readPointer(at: string): Pointer {
  const names = at.split("/").slice(1);
  return { at, steps: names.map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")) };
}

/** The value in JSON that a pointer leads to; undefined where there is none. */
function valueAt(json: unknown, { steps }: Pointer): unknown {
  return steps.reduce(memberOf, json);
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  if (Array.isArray(value) && !arrayIndex.test(name)) return undefined;
  return Reflect.get(value, name);
}

const arrayIndex = /^(?:0|[1-9]\d*)$/;

/** The shortest beginning of the pointer that leads to nothing. */
function missedIn(answer: unknown, pointer: string): string {
  const names = pointer.split("/");
  const begins = names.map((_, index) => names.slice(0, index + 1).join("/"));
  return begins.find((begin) => valueAt(answer, readPointer(begin)) === undefined) ?? pointer;
}
