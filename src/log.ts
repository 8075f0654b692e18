import {
  type DestinationStream,
  destination as fileDescriptor,
  type Logger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from "pino";
import type { Config } from "./config.ts";

export type Log = Logger;

export interface LogOptions {
  level: Config["logLevel"];
  /** What keys begin with; `svc` where it is absent, as before the settings are read. */
  keyPrefix?: string;
  /**
   * Secrets that must never be printed whatever they look like: the service token, a database's address. Looked at
   * for each line, so that one which is learned later can be added.
   */
  secrets?: readonly string[];
  /** Takes one line a call, with its newline; standard error where it is absent. */
  destination?: { write(line: string): unknown };
}

/**
 * A log of JSON lines. What keys, bearer tokens, user information in URLs and the given secrets look like is cut
 * from the finished line, so it can't matter where in a record they were: message, nested field, error, cause,
 * stack or URL. A record below the level costs a call of an empty function.
 */
export function createLog({ level, keyPrefix = "svc", secrets = [], destination }: LogOptions): Log {
  // Written at once: the last line before a crash is the one that matters.
  const sink = destination ?? fileDescriptor({ dest: standardError, sync: true });
  const redact = createRedaction(keyPrefix, secrets);
  const redacting: DestinationStream = { write: (line) => void sink.write(redact(line)) };
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: stdSerializers.err, error: stdSerializers.err, cause: stdSerializers.err },
      depthLimit: 5,
      edgeLimit: 100,
    },
    redacting,
  );
}

const standardError = 2;

/**
 * A function that cuts secrets from a text: of a key the prefix and the id stay, of all else nothing. `_` and `.`
 * are also known in their percent-encoded form, and a blank in its JSON form.
 */
export function createRedaction(keyPrefix: string, secrets: readonly string[]): (text: string) => string {
  // Whatever hangs on to the secret goes with it: of two keys in a row, the first takes the second's prefix.
  const key = new RegExp(
    `(${keyPrefix}(?:_|%5F)[0-9A-Z]+)(?:\\.|%2E)[0-9A-Z]+(?:(?:[._]|%5F|%2E)[0-9A-Z]+)*`,
    "gi",
  );
  // Our own words say where a token belongs, and have none.
  const bearer = /\bbearer(?:\s|\\[tnr]|\+|%20)+(?!<API key>)[^\s"'\\,]+/gi;
  const userInformation = /(:\/\/)[^\s/"'\\@]+@/g;
  return (text) => {
    let cut = text;
    for (const form of secrets.flatMap(writtenForms)) cut = cut.replaceAll(form, "[redacted]");
    return cut
      .replace(bearer, "Bearer [redacted]")
      .replace(key, "$1.…")
      .replace(userInformation, "$1[redacted]@");
  };
}

/** As it is, as JSON writes it, and as a URL does. */
function writtenForms(secret: string): string[] {
  return secret === "" ? [] : [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)];
}
