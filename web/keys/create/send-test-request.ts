import { bounds } from "../../bounds.ts";

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

/**
 * Runs the app once with the key, as a program would: without the session's cookie. Returns null
 * when no answer came.
 */
export async function sendTestRequest(
  fetch: typeof globalThis.fetch,
  request: { appId: string; value: string },
): Promise<TestAnswer | null> {
  try {
    const response = await fetch(`/api/apps/${request.appId}/run`, {
      method: "POST",
      headers: { Authorization: `Bearer ${request.value}`, "Content-Type": "application/json" },
      body: JSON.stringify({ text: "hello" }),
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(bounds.callMsMax),
    });
    const body = await response.text();
    const retryAfterS = Number(response.headers.get("Retry-After") ?? Number.NaN);
    return {
      status: response.status,
      problem: response.ok ? null : problemIn(body),
      retryAfterS: retryAfterS > 0 ? retryAfterS : null,
      body: body.slice(0, bounds.shownAnswerCharactersMax),
      rateLimit: response.headers.get("RateLimit"),
    };
  } catch {
    return null;
  }
}

/** The sentence in the body of a refusal; null when something else than Keyrun wrote the body. */
function problemIn(body: string): string | null {
  try {
    const message: unknown = JSON.parse(body).error.message;
    return typeof message === "string" ? message : null;
  } catch {
    return null;
  }
}
