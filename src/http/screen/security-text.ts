import { createStaticBody, type StaticBody } from "../static-body.ts";

export const securityTextPath = "/.well-known/security.txt";

const dayMs = 24 * 60 * 60 * 1_000;
/** RFC 9116 recommends less than a year. The text is made anew each day. */
const validDays = 30;

/**
 * Says where to report a fault of this Keyrun (RFC 9116): at its page of SECURITY.md. The same text
 * for a day of UTC. `origin` is the start of links to this Keyrun: scheme, host and port.
 */
export function securityText({ origin, nowMs }: { origin: string; nowMs: number }): StaticBody {
  const expires = new Date((Math.floor(nowMs / dayMs) + validDays) * dayMs);
  const lines = [
    `Contact: ${origin}/docs/security#how-to-report-a-fault`,
    `Expires: ${expires.toISOString()}`,
    "Preferred-Languages: en",
    `Canonical: ${origin}${securityTextPath}`,
    "",
  ];
  const contentType = "text/plain; charset=utf-8";
  return createStaticBody(Buffer.from(lines.join("\n")), { contentType, compressed: {} });
}
