import type { AuditLog } from "../audit/audit-log.ts";
import type { Clock } from "../base/clock.ts";
import type { HttpHandler, HttpRequest } from "../http/handler.ts";
import type { ScreenFiles } from "../http/screen/files.ts";
import { createScreenHandler } from "../http/screen/handler.ts";
import { isLoopbackHost } from "../settings/host.ts";
import { createSignInHandler } from "../sign-in/sign-in-handler.ts";
import type { SignIn } from "./sign-in.ts";
import type { ScreenNotice } from "./start-words.ts";

/**
 * Puts the screen and sign-in before a handler. Where nobody can sign in, there is no screen
 * either, but its documentation.
 */
export type WithScreen = (next: HttpHandler) => HttpHandler;

export function createWithScreen(
  signIn: SignIn & {
    readonly audit: AuditLog;
    readonly clock: Clock;
    readonly publicUrl: string | undefined;
  },
  files: ScreenFiles | undefined,
): WithScreen {
  const { access, method, address, sessions, audit, clock, publicUrl } = signIn;
  return (next) => {
    if (!access || !method) {
      const addressOf = publicUrl === undefined ? addressAsked : address;
      return files ? createScreenHandler({ files, address: addressOf, clock, next }) : next;
    }
    const documents = files
      ? createScreenHandler({
          ...{ files, address, clock, next },
          isOwnHost: (request) => access.isOwnHost((name) => request.header(name)),
        })
      : next;
    return createSignInHandler({ address, sessions, method, audit, next: documents });
  };
}

/**
 * The address that the caller has asked, for a Keyrun that does not know its own. Off the loopback
 * it is taken for one of HTTPS, which security.txt needs (RFC 9116, section 2.5.3), but browsers
 * are not told to use HTTPS alone.
 */
function addressAsked(request: HttpRequest): { readonly origin: string; readonly secure: boolean } {
  const host = request.header(":authority") ?? request.header("host") ?? "localhost";
  const url = new URL(`https://${host}`);
  return { origin: isLoopbackHost(url.hostname) ? `http://${host}` : url.origin, secure: false };
}

/** What is said of the screen at start. Makes no link yet. */
export function screenNotice(signIn: SignIn, files: ScreenFiles | undefined): ScreenNotice {
  if (signIn.mode === "off") return { kind: "off" };
  if (!files) return { kind: "not_built" };
  const { address, links } = signIn;
  return { kind: "open", url: address().origin, newLink: links && (() => links.create().url) };
}
