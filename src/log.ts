import {
  type DestinationStream,
  destination as fileDescriptor,
  type LevelWithSilent,
  type Logger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from "pino";

export type Log = Logger;

export interface LogOptions {
  level: LevelWithSilent;
  /** The prefix of keys; `svc` if absent, as it is before the settings are read. */
  keyPrefix?: string;
  /**
   * Secrets of any form that must never be printed, such as the service token or a database's
   * address. Read again for each line, so that a secret can be added later.
   */
  secrets?: readonly string[];
  /** Called with each line and its newline. Standard error if absent. */
  destination?: { write(line: string): unknown };
}

/**
 * A log of JSON lines. Keys, bearer tokens, user information in URLs and the given secrets are cut
 * from the finished line, so that no part of a record can leak them: message, nested field, error,
 * cause, stack or URL. A record below the level costs one call of an empty function.
 */
export function createLog({ level, keyPrefix = "svc", secrets = [], destination }: LogOptions): Log {
  // Synchronous: the last line before a crash is the one that matters.
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
 * Returns a function that cuts secrets from a text. Only the prefix and the id of a key stay. Also
 * finds `_` and `.` in percent-encoded form, and white space in JSON form.
 */
export function createRedaction(keyPrefix: string, secrets: readonly string[]): (text: string) => string {
  // Of two keys in a row, the first match takes the second's prefix, so it takes the rest too.
  const key = new RegExp(
    `(${keyPrefix}(?:_|%5F)[0-9A-Z]+)(?:\\.|%2E)[0-9A-Z]+(?:(?:[._]|%5F|%2E)[0-9A-Z]+)*`,
    "gi",
  );
  // Keyrun's own messages say `Bearer <API key>`, which is no token.
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

/** The secret as it is, as JSON writes it and as a URL writes it. */
function writtenForms(secret: string): string[] {
  return secret === "" ? [] : [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)];
}
