/** The outcome of redeeming a one-time sign-in code. */
export type Redemption = "signed-in" | "refused" | "unreachable";

/**
 * Takes the code out of the address, so that it stays neither in the address bar nor in the
 * history. Returns null when there is none. Call it before any other code reads the address.
 */
export function takeSignInCode(window: Window): string | null {
  if (window.location.pathname !== "/sign-in/link") return null;
  const code = new URLSearchParams(window.location.hash.slice(1)).get("code");
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  return code;
}

/** Exchanges a one-time code for a session cookie. */
export async function redeemCode(code: string, fetch: typeof globalThis.fetch): Promise<Redemption> {
  try {
    const response = await fetch("/sign-in/code", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (response.ok) return "signed-in";
    return response.status === 401 || response.status === 400 ? "refused" : "unreachable";
  } catch {
    return "unreachable";
  }
}
