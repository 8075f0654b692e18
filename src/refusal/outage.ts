import { type Refusal, unavailable } from "./refusal.ts";

/** What this process can't do without: its lease on the store, and Redis. */
export const outageKinds = ["lease", "redis"] as const;
export type OutageKind = (typeof outageKinds)[number];

/**
 * The private cause of refusals that last as long as something is lost. The log tells its beginning
 * and its end, so that a refusal for it is no line of its own, and is counted.
 */
export class Outage extends Error {
  override readonly name = "Outage";
  readonly kind: OutageKind;

  constructor(kind: OutageKind, cause: unknown) {
    super(words[kind], { cause });
    this.kind = kind;
  }
}

const words: Readonly<Record<OutageKind, string>> = {
  lease: "this instance has no lease on the store",
  redis: "Redis does not answer",
};

/** Refuses a request while something is lost. `cause` is why, where it is known. */
export function refuseFor(kind: OutageKind, cause?: unknown): Refusal {
  return unavailable({ cause: new Outage(kind, cause), isQuiet: true });
}
