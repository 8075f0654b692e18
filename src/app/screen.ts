import { createAssetsDoor } from "../edge/assets-door.ts";
import type { HttpDoor } from "../edge/http.ts";
import type { ScreenFiles } from "../edge/screen-files.ts";
import { createSignInDoor } from "../signin/sign-in-door.ts";
import type { ScreenNotice } from "../start-words.ts";
import type { Reporting } from "./reporting.ts";
import type { SignIn } from "./sign-in.ts";

/** What puts the screen and signing in before a door. Where nobody can sign in, there is no screen either. */
export type WithScreen = (next: HttpDoor, reporting: Reporting) => HttpDoor;

export function createWithScreen(signIn: SignIn, files: ScreenFiles | undefined): WithScreen {
  const { access, method, address, sessions } = signIn;
  return (next, reporting) => {
    if (!access || !method) return next;
    const documents = files
      ? createAssetsDoor({
          files,
          isOwnHost: (request) => access.isOwnHost((name) => request.header(name)),
          secure: () => address().secure,
          next,
        })
      : next;
    return createSignInDoor({ address, sessions, method, next: documents, onRefusal: reporting.rest });
  };
}

/** Makes the first one-time link, where sign-in is local. */
export function screenNotice(signIn: SignIn, files: ScreenFiles | undefined): ScreenNotice {
  if (signIn.mode === "off") return { kind: "off" };
  if (!files) return { kind: "not_built" };
  return { kind: "open", url: signIn.address().origin, link: signIn.links?.create().url };
}
