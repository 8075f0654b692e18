import { bounds } from "../../bounds.ts";
import { type Call, sentTexts } from "../../try-it/snippet.ts";

/** The answer to a test request. */
export interface TestAnswer {
  readonly status: number;
  /** The refusal's own words; null when the request was not refused, or without words. */
  readonly problem: string | null;
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
  /** The key. */
  readonly value: string;
}

/**
 * Runs the app once with the key, as a program would: without the session's cookie. Returns null
 * when no answer came: after the longest time of any app, or when the signal ended it.
 */
export async function sendTestRequest(
  fetch: typeof globalThis.fetch,
  run: TestRun,
  signal: AbortSignal,
): Promise<TestAnswer | null> {
  try {
    const late = AbortSignal.timeout(bounds.testRequestMsMax);
    return await readAnswer(await send(fetch, "run", run, AbortSignal.any([signal, late])));
  } catch {
    return null;
  }
}

/** Sends the request of one of the two calls. */
export function send(
  fetch: typeof globalThis.fetch,
  call: Call,
  { appId, value }: TestRun,
  signal: AbortSignal,
): Promise<Response> {
  return fetch(`/api/apps/${appId}/${call}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${value}`, "Content-Type": "application/json" },
    body: JSON.stringify({ text: sentTexts[call] }),
    credentials: "omit",
    cache: "no-store",
    signal,
  });
}

/** Reads a whole answer. */
export async function readAnswer(response: Response): Promise<TestAnswer> {
  const body = await response.text();
  const retryAfterS = Number(response.headers.get("Retry-After") ?? Number.NaN);
  return {
    status: response.status,
    problem: response.ok ? null : problemIn(body),
    retryAfterS: retryAfterS > 0 ? retryAfterS : null,
    body: body.slice(0, bounds.shownAnswerCharactersMax),
    rateLimit: response.headers.get("RateLimit"),
  };
}

/** The sentence in the body of a refusal; null when something else than Keyrun wrote the body. */
export function problemIn(body: string): string | null {
  try {
    const { message }: { message?: unknown } = JSON.parse(body).error;
    return typeof message === "string" ? message : null;
  } catch {
    return null;
  }
}
