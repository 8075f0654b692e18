import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { HttpRequest, WholeResponse } from "./handler.ts";
import { weightOfCoding } from "./headers.ts";

/** A body that is the same for every caller, in every coding that can be sent. */
export interface StaticBody {
  readonly contentType: string;
  /** The hash of the uncompressed bytes. The same body has the same hash after a restart. */
  readonly hash: string;
  readonly plain: Uint8Array;
  /** Absent if it would not be smaller. */
  readonly br?: Uint8Array;
  readonly gzip?: Uint8Array;
}

/** The forms of a body that are smaller than the body itself. */
export type Compressed = Pick<StaticBody, "br" | "gzip">;

/** Prepares a body, once, at start-up. Hands on the forms that were made before. */
export function createStaticBody(
  plain: Uint8Array,
  { contentType, compressed }: { readonly contentType: string; readonly compressed: Compressed },
): StaticBody {
  const hash = createHash("sha256").update(plain).digest("base64url").slice(0, 22);
  return { contentType, hash, plain, ...compressed };
}

/** The text as HTML writes it, also in the value of an attribute. */
export function htmlOf(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/**
 * Compresses a text. Brotli's quality is 0 to 11; 9 gives nearly the smallest result, and is fast
 * enough at start-up.
 */
export async function compress(
  plain: Uint8Array,
  { brotliQuality = 9 }: { readonly brotliQuality?: number } = {},
): Promise<Compressed> {
  const params = { [constants.BROTLI_PARAM_QUALITY]: brotliQuality };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(plain, { params }),
    promisify(gzip)(plain, { level: constants.Z_BEST_COMPRESSION }),
  ]);
  return {
    ...(br.length < plain.length && { br }),
    ...(gz.length < plain.length && { gzip: gz }),
  };
}

/**
 * Returns the response with the body in the coding that the caller prefers, or 304 if the caller
 * has it already (RFC 9110, section 13.1.2). A body that must not be stored has no ETag.
 */
export function staticAnswer(
  request: HttpRequest,
  body: StaticBody,
  { headers: given, caching }: { readonly headers: readonly string[]; readonly caching: string },
): WholeResponse {
  const { coding, bytes } = bestForm(body, request.header("accept-encoding"));
  const headers = [
    ...given,
    "X-Request-Id",
    request.requestId,
    "Cache-Control",
    caching,
    "Vary",
    "Accept-Encoding",
  ];
  if (caching !== "no-store") {
    const etag = `"${body.hash}${coding && `-${coding}`}"`;
    headers.push("ETag", etag);
    if (knows(request.header("if-none-match"), etag))
      return { status: 304, headers, body: "", uncounted: true };
  }
  headers.push("Content-Type", body.contentType);
  if (coding) headers.push("Content-Encoding", coding);
  return { status: 200, headers, body: bytes, uncounted: true };
}

/** The form with the highest weight, of equals the smallest. */
function bestForm(body: StaticBody, accept: string | undefined): { coding: string; bytes: Uint8Array } {
  let best = { coding: "", bytes: body.plain };
  let bestWeight = weightOfCoding(accept, "identity");
  for (const coding of ["gzip", "br"] as const) {
    const bytes = body[coding];
    const weight = weightOfCoding(accept, coding);
    if (bytes === undefined || weight === 0 || weight < bestWeight) continue;
    best = { coding, bytes };
    bestWeight = weight;
  }
  return best;
}

/** `*` means any form that the caller has. */
function knows(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = (ifNoneMatch ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes(etag) || tags.includes("*");
}
