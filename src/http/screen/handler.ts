import type { Clock } from "../../base/clock.ts";
import { fail } from "../../refusal/refusal.ts";
import type { HttpHandler, HttpRequest } from "../handler.ts";
import { pathOf } from "../request-head.ts";
import { type StaticBody, staticAnswer } from "../static-body.ts";
import type { ScreenFiles } from "./files.ts";
import { screenHeaders } from "./headers.ts";
import { securityText, securityTextPath } from "./security-text.ts";

export interface ScreenHandlerParts {
  readonly files: ScreenFiles;
  /**
   * True if the request names one of the screen's own hosts. Absent where nobody can sign in: then
   * the documentation is served without the screen, under every host.
   */
  readonly isOwnHost?: (request: HttpRequest) => boolean;
  /** The start of links to this Keyrun, and whether browsers use HTTPS alone. */
  readonly address: (request: HttpRequest) => { readonly origin: string; readonly secure: boolean };
  readonly clock: Pick<Clock, "unixMs">;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}

/**
 * Serves the screen: one HTML document for all of its paths, those of the documentation with
 * security.txt, and its files. Browsers must not cache the screen's document. Files under
 * `/assets/` have a hash in their name and may be cached for ever. Only GET and HEAD.
 */
export function createScreenHandler(parts: ScreenHandlerParts): HttpHandler {
  const { next } = parts;
  return (request) => {
    const path = pathOf(request.target);
    const isDocument = parts.isOwnHost !== undefined && documentPaths.test(path);
    const file = fileAt(parts, request, isDocument ? "/index.html" : path);
    if (!file || path.endsWith(".html")) return next(request);
    if (parts.isOwnHost?.(request) === false) throw fail("MISDIRECTED_REQUEST");
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
    }
    const headers = screenHeaders(parts.address(request));
    return staticAnswer(request, file, { headers, caching: isDocument ? "no-store" : cachingOf(path) });
  };
}

/** The paths that the screen's own router knows. Every other path gets 404 and not the document. */
const documentPaths = /^\/($|settings(\/|$)|sign-in(\/link)?$)/;

/** The pages of the documentation, which anybody may read. */
const docsPaths = /^\/docs\/[\w-]+$/;

function fileAt(
  { files, address, clock }: ScreenHandlerParts,
  request: HttpRequest,
  path: string,
): StaticBody | undefined {
  if (path === securityTextPath && files.has("/docs/security.html")) {
    return securityText({ origin: address(request).origin, nowMs: clock.unixMs() });
  }
  return files.get(docsPaths.test(path) ? `${path}.html` : path);
}

function cachingOf(path: string): string {
  return path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}
