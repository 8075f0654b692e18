import { appFailed } from "../backend-runner.ts";

/**
 * The text of a message in JSON: an object with a string `text`. Throws APP_FAILED for anything
 * else. The parser's error quotes what the app sent, which belongs to the team, so it is not kept
 * as a cause.
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

function textOf(message: unknown): string {
  if (
    typeof message === "object" &&
    message !== null &&
    "text" in message &&
    typeof message.text === "string"
  ) {
    return message.text;
  }
  throw appFailed("A message is not a JSON object with a string `text`.");
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw appFailed("A message is not JSON.");
  }
}
