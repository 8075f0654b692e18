import { bounds } from "./config.ts";
import { type Reason, reasons } from "./reasons.ts";

/**
 * A request that ends without doing what it asked for. `message`, `param` and `metadata` are public; `cause`
 * goes to the log and never to the caller.
 */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly reason: Reason;
  /** The field at fault, as the caller wrote it; null where no single field is. */
  readonly param: string | null;
  /** Public facts for programs: `ErrorInfo.metadata`. Never a secret. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long to wait before trying again makes sense; absent where waiting does not help. */
  readonly retryAfterMs: number | undefined;
  /** True where the app may have started: repeating the request could do its work twice. */
  readonly mayHaveRun: boolean;

  constructor(reason: Reason, facts: RefusalFacts) {
    const metadata = facts.metadata ?? {};
    super(
      facts.problem ?? words(reason, metadata),
      facts.cause === undefined ? undefined : { cause: facts.cause },
    );
    this.reason = reason;
    this.param = facts.param ?? null;
    this.metadata = metadata;
    this.retryAfterMs = facts.retryAfterMs;
    this.mayHaveRun = facts.mayHaveRun ?? false;
  }
}

export interface RefusalFacts {
  param?: string;
  /** Public words for this very case, instead of the table's. Must say what to do, and hold no secret. */
  problem?: string;
  metadata?: Record<string, string>;
  /** Private: for the log. */
  cause?: unknown;
  retryAfterMs?: number;
  mayHaveRun?: boolean;
}

/**
 * The process can't start. The message is for the operator: what is wrong, and what to do about it. It holds no
 * secret, and neither does the cause.
 */
export class StartRefused extends Error {
  override readonly name = "StartRefused";
}

/** The one way to end a request: `throw fail("APP_NOT_FOUND", { metadata: { app_id } })`. */
export function fail(reason: Reason, facts: RefusalFacts = {}): Refusal {
  return new Refusal(reason, facts);
}

/** What can't be done now may be done in a moment: UNAVAILABLE, with the one wait that all such answers name. */
export function unavailable(facts: Omit<RefusalFacts, "retryAfterMs"> = {}): Refusal {
  return fail("UNAVAILABLE", { ...facts, retryAfterMs: bounds.retryAfterUnavailableMs });
}

/** What was thrown, as a refusal: itself, or INTERNAL with the thrown value as its private cause. */
export function refusalFrom(thrown: unknown): Refusal {
  return thrown instanceof Refusal ? thrown : fail("INTERNAL", { cause: thrown });
}

function words(reason: Reason, metadata: Record<string, string>): string {
  return reasons[reason].words.replace(/\{(\w+)\}/g, (_, name: string) => metadata[name] ?? "?");
}
