import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { createOidcStateCookies } from "#src/sign-in/cookies.ts";
import { screenAddress } from "#src/sign-in/screen-address.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const stateOf = (name: string, returnTo = "/settings") => {
  return { state: name.padStart(43, "s"), nonce: "n", codeVerifier: "v", returnTo };
};
const state = stateOf("one");
const bound = { host: "127.0.0.1", port: 8080 };

function setUp(publicUrl?: string) {
  const clock = createManualClock();
  const address = screenAddress({ publicUrl, bound });
  const cookies = (key = "k", ...older: string[]) => {
    const keys = [Buffer.from(key), ...older.map((each) => Buffer.from(each))] as const;
    return createOidcStateCookies({ clock, keys, address });
  };
  const pairOf = (written: readonly string[]) => written.at(-1)?.split(";")[0] ?? "";
  const header = pairOf(cookies().write(state, undefined));
  return { clock, cookies, header, pairOf };
}

test("the state comes back from the browser unchanged, for ten minutes", () => {
  const { clock, cookies, header } = setUp();
  expect(cookies().read(`other=1; ${header}`, state.state)).toEqual(state);
  clock.advance(bounds.oidcSignInMs - 1);
  expect(cookies().read(header, state.state)).toEqual(state);
  clock.advance(1);
  expect(cookies().read(header, state.state)).toBeUndefined();
});

test("each sign-in of a browser has its own cookie, and is removed alone", () => {
  const { cookies, header, pairOf } = setUp();
  const other = stateOf("two", "/activity");
  const written = cookies().write(other, header);
  expect(written).toHaveLength(1);
  const both = `${header}; ${pairOf(written)}`;
  expect(cookies().read(both, state.state)).toEqual(state);
  expect(cookies().read(both, other.state)).toEqual(other);
  const [name = ""] = header.split("=");
  expect(cookies().clear(state.state)).toEqual([`${name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax`]);
});

test("a forged or changed cookie is ignored, and so is the content of another sign-in", () => {
  const { cookies, header } = setUp();
  const [name = "", value = ""] = header.split("=");
  const [content = "", signature = ""] = value.split(".");
  const { state: _, ...rest } = state;
  const other = Buffer.from(JSON.stringify({ ...rest, returnTo: "/x", expireTimeMs: 1e15 })).toString(
    "base64url",
  );
  expect(cookies("another").read(header, state.state)).toBeUndefined();
  for (const forged of [
    `${other}.${signature}`,
    `${content}.`,
    content,
    "",
    ".",
    `${content}.${signature}A`,
  ]) {
    expect(cookies().read(`${name}=${forged}`, state.state)).toBeUndefined();
  }
  expect(cookies().read(`${header}; ${header}`, state.state)).toBeUndefined();
  expect(cookies().read(undefined, state.state)).toBeUndefined();
  const renamed = header.replace(state.state, stateOf("two").state);
  expect(cookies().read(renamed, stateOf("two").state)).toBeUndefined();
});

test("a text that is no state of Keyrun's is never a part of a cookie's name", () => {
  const { cookies, header } = setUp();
  for (const text of ["", "short", `${"s".repeat(42)};`, `${"s".repeat(43)}\r\nSet-Cookie: a`]) {
    expect(cookies().read(header, text)).toBeUndefined();
    expect(cookies().clear(text)).toEqual([]);
  }
});

test("while the secret changes, what one instance wrote is read by another, with whichever key of both", () => {
  const { cookies, header, pairOf } = setUp();
  expect(cookies("new", "k").read(header, state.state)).toEqual(state);
  const byNew = pairOf(cookies("new", "k").write(state, undefined));
  expect(cookies("k", "new").read(byNew, state.state)).toEqual(state);
  expect(cookies("k").read(byNew, state.state)).toBeUndefined();
});

test("the cookies of a browser stay within a bound: one more removes the oldest, and those that are over", () => {
  const { clock, cookies } = setUp();
  const jar = new Map<string, string>();
  const header = () => [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
  const take = (written: readonly string[]) => {
    for (const each of written) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      if (each.includes("Max-Age=0")) jar.delete(name);
      else jar.set(name, value);
    }
  };
  // The longest path that a sign-in returns to, and the values that openid-client makes.
  const values = { nonce: "n".repeat(43), codeVerifier: "v".repeat(43) };
  for (let n = 0; n < 40; n++) {
    clock.advance(1);
    const path = n % 2 === 0 ? "/settings/team/demo/api-keys" : `/${"p".repeat(1_023)}`;
    take(cookies().write({ ...stateOf(`-${n}`, path), ...values }, header()));
    expect(header().length).toBeLessThanOrEqual(bounds.oidcCookieBytesMax);
    expect(cookies().read(header(), stateOf(`-${n}`).state)?.returnTo).toBe(path);
  }
  expect(cookies().read(header(), stateOf("-38").state)).toBeDefined();
  expect(cookies().read(header(), stateOf("-0").state)).toBeUndefined();
  clock.advance(bounds.oidcSignInMs);
  take(cookies().write(state, header()));
  expect(jar.size).toBe(1);
});

test("over HTTPS only this host can set the cookie", () => {
  const { cookies } = setUp("https://keyrun.example.com");
  const [written = ""] = cookies().write(state, undefined);
  expect(written.replace(state.state, "<state>")).toMatch(
    /^__Host-keyrun-sign-in-<state>=[\w.-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
  );
});
