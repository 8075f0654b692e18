import type { HttpHandler, HttpRequest } from "../http/handler.ts";
import { pathOf } from "../http/request-head.ts";
import { staticAnswer } from "../http/static-body.ts";
import { fail } from "../refusal/refusal.ts";
import type { ScreenFiles } from "./screen-files.ts";
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
 * Serves the screen: one HTML document for all of its paths, those of the documentation, and its
 * files. Browsers must not cache the screen's document. Files under `/assets/` have a hash in their
 * name and may be cached for ever. Only GET and HEAD.
 */
export function createScreenHandler(parts: ScreenHandlerParts): HttpHandler {
  const { files, next } = parts;
  return (request) => {
    const path = pathOf(request.target);
    const isDocument = documentPaths.test(path);
    const file = files.get(isDocument ? "/index.html" : docsPaths.test(path) ? `${path}.html` : path);
    if (!file || path.endsWith(".html")) return next(request);
    if (!parts.isOwnHost(request)) throw fail("MISDIRECTED_REQUEST");
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
    }
    const headers = screenHeaders({ secure: parts.secure() });
    return staticAnswer(request, file, { headers, caching: isDocument ? "no-store" : cachingOf(path) });
  };
}

/** The paths that the screen's own router knows. Every other path gets 404 and not the document. */
const documentPaths = /^\/($|settings(\/|$)|sign-in(\/link)?$)/;

/** The pages of the documentation, which anybody may read. */
const docsPaths = /^\/docs\/[\w-]+$/;

function cachingOf(path: string): string {
  return path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}
