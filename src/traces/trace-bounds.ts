/** The bounds of traces. Those of what waits for the exporter are the SDK's. */
export const traceBounds = {
  /** Of a path in a span. */
  pathCharactersMax: 256,
  /** Of a path that is read for a span: more than is shown, because redaction makes it shorter. */
  pathCharactersReadMax: 1_024,
  /** Requests that one span names beside its parent. The SDK keeps no more. */
  linksMax: 128,
  /** How long the end of the process waits for the last spans to be exported. */
  flushMsMax: 2_000,
} as const;
