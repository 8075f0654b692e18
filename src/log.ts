import {
  type DestinationStream,
  destination as fileDescriptor,
  type LevelWithSilent,
  type Logger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from "pino";
import { createRedaction } from "./redaction.ts";

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
  destination?: { write(line: string): unknown } | undefined;
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
