import { hasTooManyValues, jsonValuesMax } from "../../transcode/json-text.ts";
import { appFailed } from "../backend-runner.ts";

/**
 * The text of a message in JSON: an object with a string `text`. Throws APP_FAILED for anything
 * else.
 */
export function textOfJson(json: string): string {
  return textOf(parse(json));
}

/**
 * The same for one of many messages. The app tells with a member `error` that it failed half-way.
 */
export function textOfPart(json: string): string {
  const message = parse(json);
  if (typeof message === "object" && message !== null && "error" in message && message.error !== null) {
    throw toldError();
  }
  return textOf(message);
}

/** The refusal for an app that says in its stream that it failed. */
export function toldError() {
  return appFailed("The app told an error in its stream.");
}

/** The string `text` of an object from JSON; undefined for anything else. */
export function memberText(message: unknown): string | undefined {
  if (typeof message !== "object" || message === null || !("text" in message)) return undefined;
  return typeof message.text === "string" ? message.text : undefined;
}

/**
 * What the JSON holds; undefined if it is no JSON. The parser's error quotes what the app sent,
 * which belongs to the team, so it is not kept as a cause. Throws APP_FAILED for JSON with more
 * values than may be read in one turn of the event loop.
 */
export function jsonIn(json: string): unknown {
  if (hasTooManyValues(json)) throw appFailed(`A message in JSON has more than ${jsonValuesMax} values.`);
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function textOf(message: unknown): string {
  const text = memberText(message);
  if (text === undefined) throw appFailed("A message is not a JSON object with a string `text`.");
  return text;
}

function parse(json: string): unknown {
  const message = jsonIn(json);
  if (message === undefined) throw appFailed("A message is not JSON.");
  return message;
}
