import type { Clock } from "../clock.ts";
import type { HttpHandler, HttpRequest } from "../http/handler.ts";
import { pathOf } from "../http/request-head.ts";
import { type StaticBody, staticAnswer } from "../http/static-body.ts";
import { fail } from "../refusal/refusal.ts";
import type { ScreenFiles } from "./screen-files.ts";
import { screenHeaders } from "./screen-headers.ts";
import { securityText, securityTextPath } from "./security-text.ts";

export interface ScreenHandlerParts {
  readonly files: ScreenFiles;
  /** True if the request names one of the screen's own hosts. */
  readonly isOwnHost: (request: HttpRequest) => boolean;
  /** The start of the screen's links, and whether browsers use HTTPS. */
  readonly address: () => { readonly origin: string; readonly secure: boolean };
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
    const isDocument = documentPaths.test(path);
    const file = fileAt(parts, isDocument ? "/index.html" : path);
    if (!file || path.endsWith(".html")) return next(request);
    if (!parts.isOwnHost(request)) throw fail("MISDIRECTED_REQUEST");
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
    }
    const headers = screenHeaders({ secure: parts.address().secure });
    return staticAnswer(request, file, { headers, caching: isDocument ? "no-store" : cachingOf(path) });
  };
}

/** The paths that the screen's own router knows. Every other path gets 404 and not the document. */
const documentPaths = /^\/($|settings(\/|$)|sign-in(\/link)?$)/;

/** The pages of the documentation, which anybody may read. */
const docsPaths = /^\/docs\/[\w-]+$/;

function fileAt({ files, address, clock }: ScreenHandlerParts, path: string): StaticBody | undefined {
  if (path === securityTextPath && files.has("/docs/security.html")) {
    return securityText({ origin: address().origin, nowMs: clock.unixMs() });
  }
  return files.get(docsPaths.test(path) ? `${path}.html` : path);
}

function cachingOf(path: string): string {
  return path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}
