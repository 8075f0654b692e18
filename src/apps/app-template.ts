/**
 * The template of an HTTP app: what is sent in place of Keyrun's own JSON, and where the text
 * stands in what comes back. Its fields are checked here, and made ready for runs.
 */

import type { HttpBackend } from "#gen/keyrun/v1/app_pb.ts";
import { withoutSecret } from "../base/fields.ts";
import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";
import type { TemplateRecord } from "./app-store.ts";

/**
 * The template in a message; undefined where it has none. Throws INVALID_ARGUMENT, naming the
 * field.
 */
export function readTemplate(message: HttpBackend): TemplateRecord | undefined {
  const { request, textAt, streamTextAt, streamEvent } = message;
  if (request + textAt + streamTextAt + streamEvent === "") return undefined;
  return {
    request: readRequest(request),
    textAt: readPointer(textAt, "text_at"),
    streamTextAt: readPointer(streamTextAt, "stream_text_at"),
    streamEvent: readStreamEvent(streamEvent),
  };
}

function readRequest(json: string): string {
  if (json === "") return "";
  if (Buffer.byteLength(json) > bounds.appRequestBytesMax) {
    throw invalid("request", `must be at most ${bounds.appRequestBytesMax / 1_024} KiB of JSON.`);
  }
  if (!isJson(json)) throw invalid("request", 'must be JSON, such as {"prompt":"$text"}.');
  const parts = partsOf(json);
  if (parts === undefined) {
    throw invalid(
      "request",
      `has a string that begins with $ and is none of $${placeholders.join(", $")}. Begin it with $$ for a dollar.`,
    );
  }
  const texts = parts.filter((part) => typeof part !== "string" && part.name === "text");
  if (texts.length > bounds.appRequestTextsMax) {
    throw invalid("request", `may have $text at most ${bounds.appRequestTextsMax} times.`);
  }
  return withoutSecret(json, `${place}.request`);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return text.isWellFormed();
  } catch {
    return false;
  }
}

/** Empty, or members that each follow a slash, in which `~` stands in `~0` and `~1` alone. */
const pointerForm = /^(?:\/(?:[^~/]|~[01])*)*$/;

function readPointer(pointer: string, field: "text_at" | "stream_text_at"): string {
  if (isShort(pointer) && pointerForm.test(pointer)) return withoutSecret(pointer, `${place}.${field}`);
  throw invalid(
    field,
    `must be a JSON Pointer, which begins with a slash, such as /choices/0/message/content, of at most ${bounds.appPointerCharactersMax} characters. ~0 stands for ~, and ~1 for a slash in a name.`,
  );
}

function readStreamEvent(event: string): string {
  if (event === "" || (isShort(event) && /^[^=]+=./su.test(event))) {
    return withoutSecret(event, `${place}.stream_event`);
  }
  throw invalid(
    "stream_event",
    `must be member=value, such as event=token, of at most ${bounds.appPointerCharactersMax} characters.`,
  );
}

function isShort(text: string): boolean {
  return text.length <= bounds.appPointerCharactersMax && text.isWellFormed();
}

const place = "app.backend.http";

function invalid(field: string, problem: string) {
  const param = `${place}.${field}`;
  return fail("INVALID_ARGUMENT", { param, problem: `${param} ${problem}` });
}

const placeholders = ["text", "runId", "teamId", "keyId", "appId", "stream"] as const;

/** What each placeholder stands for, by its name. */
export type TemplateValues = Readonly<Record<(typeof placeholders)[number], string | boolean>>;

/**
 * Writes the JSON of a template with these values. It is taken apart once, and what is no
 * placeholder is sent as the operator wrote it, to the last digit of a number. The JSON has passed
 * `readTemplate`.
 */
export function compileRequest(json: string): (values: TemplateValues) => string {
  const parts = partsOf(json) ?? [];
  return (values) =>
    parts.map((part) => (typeof part === "string" ? part : JSON.stringify(values[part.name]))).join("");
}

type Part = string | { readonly name: keyof TemplateValues };

/**
 * The texts and the placeholders of valid JSON, in turn. Undefined where a string begins with a
 * dollar and is no placeholder. The name of a member is never one.
 */
function partsOf(json: string): readonly Part[] | undefined {
  const parts: Part[] = [];
  let from = 0;
  for (const { 0: token, 1: colon, index } of json.matchAll(jsonStrings)) {
    if (colon !== undefined) continue;
    const text = String(JSON.parse(token));
    if (!text.startsWith("$")) continue;
    const name = placeholders.find((placeholder) => `$${placeholder}` === text);
    if (name === undefined && !text.startsWith("$$")) return undefined;
    parts.push(json.slice(from, index), name === undefined ? JSON.stringify(text.slice(1)) : { name });
    from = index + token.length;
  }
  return [...parts, json.slice(from)];
}

/** Every string of valid JSON; with the colon behind it, where it is the name of a member. */
const jsonStrings = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g;
