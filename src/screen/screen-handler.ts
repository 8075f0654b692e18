import type { HttpHandler, HttpRequest, HttpResponse } from "../http/handler.ts";
import { pathOf } from "../http/request-head.ts";
import { fail } from "../refusal/refusal.ts";
import type { ScreenFile, ScreenFiles } from "./screen-files.ts";
import { screenHeaders } from "./screen-headers.ts";

export interface ScreenHandlerParts {
  readonly files: ScreenFiles;
  /** True if the request names one of the screen's own hosts. */
  readonly isOwnHost: (request: HttpRequest) => boolean;
  /** True if browsers use HTTPS. */
  readonly secure: () => boolean;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}

/**
 * Serves the screen: one HTML document for all of its paths, and its files. Browsers must not cache
 * the document. Files under `/assets/` have a hash in their name and may be cached for ever. Only
 * GET and HEAD.
 */
export function createScreenHandler(parts: ScreenHandlerParts): HttpHandler {
  const { files, next } = parts;
  return (request) => {
    const path = pathOf(request.target);
    const isDocument = documentPaths.test(path);
    const file = files.get(isDocument ? "/index.html" : path);
    if (!file || path === "/index.html") return next(request);
    if (!parts.isOwnHost(request)) throw fail("MISDIRECTED_REQUEST");
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
    }
    const headers = [...screenHeaders({ secure: parts.secure() }), "X-Request-Id", request.requestId];
    return serve(request, { file, headers, caching: isDocument ? "no-store" : cachingOf(path) });
  };
}

/** The paths that the screen's own router knows. Every other path gets 404 and not the document. */
const documentPaths = /^\/($|settings(\/|$)|sign-in(\/link)?$)/;

function cachingOf(path: string): string {
  return path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}

function serve(
  request: HttpRequest,
  { file, headers, caching }: { file: ScreenFile; headers: string[]; caching: string },
): HttpResponse {
  const { encoding, bytes } = bestForm(file, request.header("accept-encoding"));
  headers.push("Cache-Control", caching, "Vary", "Accept-Encoding");
  if (caching !== "no-store") {
    const etag = `"${file.hash}${encoding && `-${encoding}`}"`;
    headers.push("ETag", etag);
    if (knows(request.header("if-none-match"), etag))
      return { status: 304, headers, body: "", uncounted: true };
  }
  headers.push("Content-Type", file.contentType);
  if (encoding) headers.push("Content-Encoding", encoding);
  return { status: 200, headers, body: bytes, uncounted: true };
}

function bestForm({ plain, br, gzip }: ScreenFile, accept = ""): { encoding: string; bytes: Uint8Array } {
  if (br && accepts(accept, "br")) return { encoding: "br", bytes: br };
  if (gzip && accepts(accept, "gzip")) return { encoding: "gzip", bytes: gzip };
  return { encoding: "", bytes: plain };
}

/**
 * True if the encoding is named with a weight above 0 (RFC 9110, section 12.5.3). `*` is ignored:
 * the uncompressed form is always allowed.
 */
function accepts(accept: string, encoding: string): boolean {
  return accept.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    return name === encoding && !parameters.some((parameter) => /^q=0(\.0{0,3})?$/.test(parameter));
  });
}

function knows(ifNoneMatch: string | undefined, etag: string): boolean {
  return (ifNoneMatch ?? "").split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
