/**
 * The template of an HTTP app: what is sent in place of Keyrun's own JSON, and where text and JSON
 * stand in what comes back. Its fields are checked here, and made ready for runs.
 */

import type { JsonObject } from "@bufbuild/protobuf";
import type { HttpBackend } from "#gen/keyrun/v1/app_pb.ts";
import { withoutSecret } from "../base/fields.ts";
import { type JsonPointer, readJsonPointer, valueAt } from "../base/json-pointer.ts";
import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";
import type { TemplateRecord } from "./app-store.ts";

/**
 * The template in a message; undefined where it has none. Throws INVALID_ARGUMENT, naming the
 * field.
 */
export function readTemplate(message: HttpBackend): TemplateRecord | undefined {
  const { request, textAt, outputAt, streamTextAt, streamEvent } = message;
  if (request + textAt + streamTextAt + streamEvent === "" && outputAt === undefined) return undefined;
  return {
    request: readRequest(request),
    textAt: readPointer(textAt, "text_at"),
    ...(outputAt !== undefined && { outputAt: readPointer(outputAt, "output_at") }),
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
      `has a string that begins with $ and is none of $${valueNames.join(", $")}, and no part of the input like $input/customer/id. Begin it with $$ for a dollar.`,
    );
  }
  if (inputsIn(parts).length > bounds.appRequestInputsMax) {
    throw invalid(
      "request",
      `may have $text and parts of $input at most ${bounds.appRequestInputsMax} times.`,
    );
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

function readPointer(pointer: string, field: "text_at" | "output_at" | "stream_text_at"): string {
  if (isShort(pointer) && readJsonPointer(pointer)) return withoutSecret(pointer, `${place}.${field}`);
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

const valueNames = ["text", "input", "runId", "teamId", "keyId", "appId", "stream"] as const;

/** What the placeholders stand for. */
export interface TemplateValues extends TemplateInput {
  readonly runId: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly appId: string;
  readonly stream: boolean;
}

/** What a caller gave. */
interface TemplateInput {
  readonly text?: string | undefined;
  readonly input?: JsonObject | undefined;
}

/**
 * Writes the JSON of a template with these values. It is taken apart once, and what is no
 * placeholder is sent as the operator wrote it, to the last digit of a number. The JSON has passed
 * `readTemplate`, and the values `checkTemplateInput`.
 */
export function compileRequest(json: string): (values: TemplateValues) => string {
  const parts = partsOf(json) ?? [];
  return (values) =>
    parts.map((part) => (typeof part === "string" ? part : JSON.stringify(valueAt(values, part)))).join("");
}

/** Throws INVALID_ARGUMENT, which names what the template sends and the caller left out. */
export function checkTemplateInput({ request }: TemplateRecord, given: TemplateInput): void {
  const missing = inputsIn(partsOf(request)).find((part) => valueAt(given, part) === undefined);
  if (missing === undefined) return;
  const [param = "", ...inside] = missing.steps;
  const what = param === "text" ? "a string" : "a JSON object";
  const problem =
    inside.length > 0 && given.input !== undefined
      ? `input must have ${missing.at.slice("/input".length)}: the app is sent it.`
      : `${param} is required, ${what}: the app is sent it.`;
  throw fail("INVALID_ARGUMENT", { param, problem });
}

/** What stands as it is, and placeholders: pointers into the values. */
type Part = string | JsonPointer;

/** The placeholders of what a caller may leave out. */
function inputsIn(parts: readonly Part[] = []): readonly JsonPointer[] {
  return parts
    .filter((part) => typeof part !== "string")
    .filter(({ steps }) => /^(?:text|input)$/.test(steps[0] ?? ""));
}

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
    const part = text.startsWith("$$") ? JSON.stringify(text.slice(1)) : placeholderOf(text);
    if (part === undefined) return undefined;
    parts.push(json.slice(from, index), part);
    from = index + token.length;
  }
  return [...parts, json.slice(from)];
}

/** A pointer into the values: `$input/customer/id` is `/input/customer/id`. */
function placeholderOf(text: string): JsonPointer | undefined {
  if (!isShort(text)) return undefined;
  const pointer = readJsonPointer(`/${text.slice(1)}`);
  const [name, ...inside] = pointer?.steps ?? [];
  const isKnown = valueNames.some((known) => known === name) && (name === "input" || inside.length === 0);
  return isKnown ? pointer : undefined;
}

/** Every string of valid JSON; with the colon behind it, where it is the name of a member. */
const jsonStrings = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g;
