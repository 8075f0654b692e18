/** The log: JSON lines by pino, from which secrets are cut before they leave this file. */

import {
  type DestinationStream,
  type LevelWithSilent,
  type Logger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from "pino";
import { createRedaction } from "./redaction.ts";

export type Log = Logger;

/**
 * A log of JSON lines. Keys, bearer tokens, user information in URLs and the given secrets are cut
 * from the finished line, so that no part of a record can leak them: message, nested field, error,
 * cause, stack or URL. A record below the level costs one call of an empty function.
 */
export function createLog({
  level,
  keyPrefix = "svc",
  secrets = [],
  destination,
  facts,
}: {
  level: LevelWithSilent;
  /** The prefix of keys; `svc` if absent, as it is before the settings are read. */
  keyPrefix?: string;
  /**
   * Secrets of any form that must never be printed, such as the service token or a database's
   * address. Read again for each line, so that a secret can be added later.
   */
  secrets?: readonly string[];
  /** Called with each line and its newline. */
  destination: { write(line: string): unknown };
  /** Called for each line that is written; returns members to add to it. */
  facts?: (() => object) | undefined;
}): Log {
  const redact = createRedaction(keyPrefix, secrets);
  const redacting: DestinationStream = { write: (line) => void destination.write(redact(line)) };
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts, error: errorFacts, cause: errorFacts },
      depthLimit: 5,
      edgeLimit: 100,
      ...(facts && { mixin: facts }),
    },
    redacting,
  );
}

/** An error as pino tells it, but for members that say nothing. What is no error stays as it is. */
function errorFacts(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const said = Object.entries(stdSerializers.err(error)).filter(
    // The type says it too.
    ([name, value]) => name !== "name" && !saysNothing(value),
  );
  return Object.fromEntries(said);
}

function saysNothing(value: unknown): boolean {
  if (value === null || value === false) return true;
  if (typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.keys(value).length === 0;
}
