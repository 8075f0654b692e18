import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { createOidcStateCookie } from "#src/sign-in/cookies.ts";
import { screenAddress } from "#src/sign-in/screen-address.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const state = { state: "s", nonce: "n", codeVerifier: "v", returnTo: "/settings" };
const bound = { host: "127.0.0.1", port: 8080 };

function setUp(publicUrl?: string) {
  const clock = createManualClock();
  const address = screenAddress({ publicUrl, bound });
  const cookie = (key = "k", ...older: string[]) => {
    const keys = [Buffer.from(key), ...older.map((each) => Buffer.from(each))] as const;
    return createOidcStateCookie({ clock, keys, address });
  };
  const header = cookie().write(state).split(";")[0] ?? "";
  return { clock, cookie, header };
}

test("the state comes back from the browser unchanged, for ten minutes", () => {
  const { clock, cookie, header } = setUp();
  expect(cookie().read(`other=1; ${header}`)).toEqual(state);
  clock.advance(bounds.oidcSignInMs - 1);
  expect(cookie().read(header)).toEqual(state);
  clock.advance(1);
  expect(cookie().read(header)).toBeUndefined();
});

test("a forged or changed cookie is ignored", () => {
  const { cookie, header } = setUp();
  const [name = "", value = ""] = header.split("=");
  const [content = "", signature = ""] = value.split(".");
  const other = Buffer.from(JSON.stringify({ ...state, returnTo: "/x", expireTimeMs: 1e15 })).toString(
    "base64url",
  );
  expect(cookie("another").read(header)).toBeUndefined();
  for (const forged of [
    `${other}.${signature}`,
    `${content}.`,
    content,
    "",
    ".",
    `${content}.${signature}A`,
  ]) {
    expect(cookie().read(`${name}=${forged}`)).toBeUndefined();
  }
  expect(cookie().read(`${header}; ${header}`)).toBeUndefined();
  expect(cookie().read(undefined)).toBeUndefined();
});

test("while the secret changes, what one instance wrote is read by another, with whichever key of both", () => {
  const { cookie, header } = setUp();
  expect(cookie("new", "k").read(header)).toEqual(state);
  const byNew = cookie("new", "k").write(state).split(";")[0] ?? "";
  expect(cookie("k", "new").read(byNew)).toEqual(state);
  expect(cookie("k").read(byNew)).toBeUndefined();
});

test("over HTTPS only this host can set the cookie", () => {
  const { cookie } = setUp("https://keyrun.example.com");
  expect(cookie().write(state)).toMatch(
    /^__Host-keyrun-sign-in=[\w.-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
  );
});
