import type { AuditLog } from "../audit/audit-log.ts";
import type { Clock } from "../clock.ts";
import type { HttpHandler } from "../http/handler.ts";
import type { ScreenFiles } from "../screen/screen-files.ts";
import { createScreenHandler } from "../screen/screen-handler.ts";
import { createSignInHandler } from "../sign-in/sign-in-handler.ts";
import type { SignIn } from "./sign-in.ts";
import type { ScreenNotice } from "./start-words.ts";

/**
 * Puts the screen and sign-in before a handler. Where nobody can sign in, there is no screen
 * either.
 */
export type WithScreen = (next: HttpHandler) => HttpHandler;

export function createWithScreen(
  signIn: SignIn & { readonly audit: AuditLog; readonly clock: Clock },
  files: ScreenFiles | undefined,
): WithScreen {
  const { access, method, address, sessions, audit, clock } = signIn;
  return (next) => {
    if (!access || !method) return next;
    const documents = files
      ? createScreenHandler({
          ...{ files, address, clock, next },
          isOwnHost: (request) => access.isOwnHost((name) => request.header(name)),
        })
      : next;
    return createSignInHandler({ address, sessions, method, audit, next: documents });
  };
}

/** What is said of the screen at start. Makes no link yet. */
export function screenNotice(signIn: SignIn, files: ScreenFiles | undefined): ScreenNotice {
  if (signIn.mode === "off") return { kind: "off" };
  if (!files) return { kind: "not_built" };
  const { address, links } = signIn;
  return { kind: "open", url: address().origin, newLink: links && (() => links.create().url) };
}
