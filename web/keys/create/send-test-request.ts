import { bounds } from "../../bounds.ts";
import { sentTexts } from "../../try-it/snippet.ts";

/** The answer to a test request. */
export interface TestAnswer {
  readonly status: number;
  /** The refusal's own words; null when the request was not refused, or without words. */
  readonly problem: string | null;
  /** True where the refusal came after the key was accepted, such as of an app that is down. */
  readonly keyWorks: boolean;
  /** After how many seconds the same request may succeed; null when the answer doesn't say. */
  readonly retryAfterS: number | null;
  /** At most `shownAnswerCharactersMax` characters. */
  readonly body: string;
  /**
   * The header `RateLimit`: what is left of the team's limit, and when more is free. Null without
   * it.
   */
  readonly rateLimit: string | null;
}

export interface TestRun {
  readonly appId: string;
  /** Whether the app is a guard, which is asked and not run. */
  readonly isGuard: boolean;
  /** The key. */
  readonly value: string;
}

/**
 * Runs the app once with the key, or asks its guard, as a program would: without the session's
 * cookie. Returns null when no answer came: after the longest time of any app, or when the signal
 * ended it.
 */
export async function sendTestRequest(
  fetch: typeof globalThis.fetch,
  run: TestRun,
  signal: AbortSignal,
): Promise<TestAnswer | null> {
  try {
    const late = AbortSignal.timeout(bounds.testRequestMsMax);
    return await readAnswer(await send(fetch, run, AbortSignal.any([signal, late])));
  } catch {
    return null;
  }
}

function send(
  fetch: typeof globalThis.fetch,
  { appId, isGuard, value }: TestRun,
  signal: AbortSignal,
): Promise<Response> {
  const authorization = { Authorization: `Bearer ${value}` };
  const run = {
    method: "POST",
    headers: { ...authorization, "Content-Type": "application/json" },
    body: JSON.stringify({ text: sentTexts.run }),
  };
  const call = isGuard ? { headers: authorization } : run;
  const path = `/api/apps/${appId}/${isGuard ? "guard" : "run"}`;
  return fetch(path, { ...call, credentials: "omit", cache: "no-store", signal });
}

/** Reads a whole answer. */
async function readAnswer(response: Response): Promise<TestAnswer> {
  const body = await response.text();
  const retryAfterS = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const { message, code } = response.ok ? {} : refusalIn(body);
  return {
    status: response.status,
    problem: typeof message === "string" ? message : null,
    keyWorks: response.ok || afterKey.has(code),
    retryAfterS: retryAfterS > 0 ? retryAfterS : null,
    body: body.slice(0, bounds.shownAnswerCharactersMax),
    rateLimit: response.headers.get("RateLimit"),
  };
}

/** The codes of refusals that only a request with a valid key can get. */
const afterKey: ReadonlySet<unknown> = new Set([
  ...["app_busy", "app_failed", "app_refused", "app_timeout", "app_unreachable"],
  "rate_limit_exceeded",
]);

/** The error in the body of a refusal; empty when something else than Keyrun wrote the body. */
function refusalIn(body: string): { readonly message?: unknown; readonly code?: unknown } {
  try {
    return JSON.parse(body).error ?? {};
  } catch {
    return {};
  }
}
