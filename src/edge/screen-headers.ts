/**
 * The screen runs its own files and no others, in no frame, and sends requests to its own origin alone; script can't
 * be made out of text. The page shows a key once: nothing else may be near it.
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "require-trusted-types-for 'script'",
].join("; ");

const hstsSeconds = 365 * 24 * 60 * 60;

/** Headers, names and values in turn, of every answer that a browser shows or runs. HSTS only over HTTPS. */
export function screenHeaders({ secure }: { readonly secure: boolean }): string[] {
  const headers = [
    "Content-Security-Policy",
    contentSecurityPolicy,
    "Cross-Origin-Opener-Policy",
    "same-origin",
    "Cross-Origin-Resource-Policy",
    "same-origin",
    "X-Content-Type-Options",
    "nosniff",
    "Referrer-Policy",
    "no-referrer",
  ];
  if (secure) headers.push("Strict-Transport-Security", `max-age=${hstsSeconds}`);
  return headers;
}
