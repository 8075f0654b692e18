/**
 * The screen may run only its own files, may not be framed, may send requests only to its own
 * origin, and may not turn text into script. It shows a new key once, so no other code may run
 * beside it.
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

/**
 * The headers of every response that a browser shows or runs: names and values, alternating.
 * Strict-Transport-Security is added only over HTTPS.
 */
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
