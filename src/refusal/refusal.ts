import { bounds } from "../bounds.ts";
import { type Reason, rowOf } from "./reasons.ts";

/**
 * A request that ends without doing what it asked for. `message`, `param` and `metadata` are
 * public. They may repeat what the caller sent, and are cut here, for every protocol and the log.
 * `cause` goes to the log and never to the caller.
 */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly reason: Reason;
  /** The field at fault, as the caller wrote it; null if it is not a single field. */
  readonly param: string | null;
  /** Public facts for programs: `ErrorInfo.metadata`. Never a secret. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long to wait before trying again; undefined if waiting does not help. */
  readonly retryAfterMs: number | undefined;
  /** True if the app may have started, so that a repeat could do its work twice. */
  readonly mayHaveRun: boolean;
  /** Private: the app whose run it ended, for the log. Never an id that only the caller knows. */
  readonly appId: string | undefined;
  /** True if it is logged at debug, because callers can cause it as often as they like. */
  readonly isQuiet: boolean;

  constructor(reason: Reason, facts: RefusalFacts) {
    const metadata = cutValues(facts.metadata);
    const { words, messageBytesMax = bounds.refusalMessageBytesMax } = rowOf(reason);
    super(
      cutText(facts.problem ?? filled(words, metadata), messageBytesMax),
      facts.cause === undefined ? undefined : { cause: facts.cause },
    );
    this.reason = reason;
    this.param = facts.param === undefined ? null : cutText(facts.param, bounds.refusalNameBytesMax);
    this.metadata = metadata;
    this.retryAfterMs = facts.retryAfterMs ?? rowOf(reason).retryAfterMs;
    this.mayHaveRun = facts.mayHaveRun ?? false;
    this.appId = facts.appId;
    this.isQuiet = facts.isQuiet ?? false;
  }
}

function cutValues(metadata: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const cut: Record<string, string> = {};
  for (const name in metadata) cut[name] = cutText(metadata[name] ?? "", bounds.refusalNameBytesMax);
  return cut;
}

/**
 * Returns a text as a refusal repeats it: well-formed, and at most `bytesMax` bytes long in JSON,
 * without the quotes. A longer text is cut, and ends with "…". Bytes in JSON are counted because
 * they are the most: one byte of UTF-8 can take six of them.
 */
export function cutText(text: string, bytesMax: number): string {
  // Nearly every text is Keyrun's own, and plain.
  if (text.length <= bytesMax && plainAscii.test(text)) return text;
  let whole = "";
  let cut = "";
  let bytes = 0;
  for (const character of text) {
    const shown = character.toWellFormed();
    bytes += Buffer.byteLength(JSON.stringify(shown)) - 2;
    if (bytes > bytesMax) return `${cut}${ellipsis}`;
    whole += shown;
    if (bytes <= bytesMax - ellipsisBytes) cut = whole;
  }
  return whole;
}

/** Without what JSON escapes. */
const plainAscii = /^[ !#-[\]-~]*$/;
const ellipsis = "…";
const ellipsisBytes = Buffer.byteLength(ellipsis);

export interface RefusalFacts {
  param?: string;
  /**
   * A public message for this case instead of the table's. It must say what to do, and hold no
   * secret.
   */
  problem?: string;
  metadata?: Record<string, string>;
  /** Private: only for the log. */
  cause?: unknown;
  retryAfterMs?: number;
  mayHaveRun?: boolean;
  /** Private: only for the log. */
  appId?: string;
  isQuiet?: boolean;
}

/**
 * Creates the refusal of a request: `throw fail("APP_NOT_FOUND", { metadata: { app_id } })`. A
 * request is refused in no other way.
 */
export function fail(reason: Reason, facts: RefusalFacts = {}): Refusal {
  return new Refusal(reason, facts);
}

/** Returns the same refusal, about the run of an app. */
export function aboutApp(refusal: Refusal, appId: string): Refusal {
  const { param, retryAfterMs } = refusal;
  return fail(refusal.reason, {
    problem: refusal.message,
    metadata: { ...refusal.metadata },
    cause: refusal.cause,
    mayHaveRun: refusal.mayHaveRun,
    appId,
    ...(param !== null && { param }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

/** For something that can't be done now but may be possible in a moment. */
export function unavailable(facts: RefusalFacts = {}): Refusal {
  return fail("UNAVAILABLE", facts);
}

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
    super(outageWords[kind], { cause });
    this.kind = kind;
  }
}

const outageWords: Readonly<Record<OutageKind, string>> = {
  lease: "this instance has no lease on the store",
  redis: "Redis does not answer",
};

/** Refuses a request while something is lost. `cause` is why, where it is known. */
export function refuseFor(kind: OutageKind, cause?: unknown): Refusal {
  return unavailable({ cause: new Outage(kind, cause), isQuiet: true });
}

/**
 * Returns the thrown value if it is a refusal, otherwise INTERNAL with that value as its private
 * cause.
 */
export function refusalFrom(thrown: unknown): Refusal {
  return thrown instanceof Refusal ? thrown : fail("INTERNAL", { cause: thrown });
}

/**
 * True if a repeat of the request could do its work twice. Clients are then told not to repeat it
 * automatically.
 */
export function isUnsafeToRepeat({ reason, mayHaveRun }: Refusal): boolean {
  const { unsafeToRepeat = false, httpStatus } = rowOf(reason);
  return unsafeToRepeat || (mayHaveRun && httpStatus >= 500);
}

/**
 * Returns what programs must know of a refusal beside its reason, as headers or metadata.
 */
export function repeatHeaders(refusal: Refusal): readonly (readonly [string, string])[] {
  const headers: [string, string][] = [];
  const { reason, retryAfterMs } = refusal;
  // The rate-limit headers of a team that has used its limit or its quota have it already.
  if (retryAfterMs !== undefined && rowOf(reason).type !== "rate_limit_error") {
    headers.push(["Retry-After", String(Math.ceil(retryAfterMs / 1_000))]);
  }
  if (isUnsafeToRepeat(refusal) || rowOf(reason).untilLater) headers.push(["X-Should-Retry", "false"]);
  return headers;
}

/** Returns a text of the table with each `{name}` filled from the refusal's metadata. */
export function filled(text: string, metadata: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => metadata[name] ?? "?");
}
