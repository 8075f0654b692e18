import { describe, expect, test } from "vitest";
import { type Browser, createBrowser } from "../harness/browser.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { passIssuer } from "../harness/issuer.ts";
import { sessionOf, startWithIssuer } from "./with-issuer.ts";

const { publicUrl, issuer } = closedAtEnd(await startWithIssuer());
issuer.state.accounts.set("bob", { email: "bob@example.com", email_verified: true });

const paths = ["/settings/team/one/api-keys", "/settings/team/two/api-keys", "/activity"];

/**
 * Begins a sign-in in each of several tabs, as a restored browser does: no request has a cookie
 * that another one has got. Returns where the issuer sends each tab back to.
 */
async function beginInTabs(browser: Browser, account = "ada"): Promise<string[]> {
  const starts = await Promise.all(
    paths.map((path) => browser.load(`${publicUrl}/sign-in?return_to=${encodeURIComponent(path)}`)),
  );
  const callbacks: string[] = [];
  // A person enters a name and a password in one tab after the other.
  for (const { headers } of starts)
    callbacks.push(await passIssuer(browser, headers.location ?? "", account));
  return callbacks;
}

const signInCookies = ({ cookies }: Browser) =>
  [...cookies.keys()].filter((name) => name.startsWith("keyrun-sign-in"));
const sessionCookie = ({ cookies }: Browser) => [...cookies].find(([name]) => /^keyrun-\d+$/.test(name))?.[1];

describe("tabs that begin before the first returns", () => {
  test("are all signed in and go where they were going, one after the other", async () => {
    const browser = createBrowser(publicUrl);
    const callbacks = await beginInTabs(browser);
    const locations = [];
    for (const callback of callbacks) locations.push((await browser.load(callback)).headers.location);
    expect(locations).toEqual(paths);
    expect(await sessionOf(browser)).toMatchObject({ email: "ada@example.com" });
    expect(signInCookies(browser)).toEqual([]);
  });

  test("are all signed in and go where they were going, all at once", async () => {
    const browser = createBrowser(publicUrl);
    const callbacks = await beginInTabs(browser);
    const answers = await Promise.all(callbacks.map((callback) => browser.load(callback)));
    expect(answers.map(({ headers }) => headers.location)).toEqual(paths);
    expect(await sessionOf(browser)).toMatchObject({ email: "ada@example.com" });
    expect(signInCookies(browser)).toEqual([]);
  });

  test("return to the session of the first, which none of them ends", async () => {
    const browser = createBrowser(publicUrl);
    const [first = "", ...others] = await beginInTabs(browser);
    await browser.load(first);
    const token = sessionCookie(browser);
    for (const callback of others) await browser.load(callback);
    expect(sessionCookie(browser)).toBe(token);
    expect(await sessionOf(browser)).toMatchObject({ email: "ada@example.com" });
  });

  test("are not ended by one that fails", async () => {
    const browser = createBrowser(publicUrl);
    const [first = "", second = "", third = ""] = await beginInTabs(browser);
    const wrong = new URL(first);
    wrong.searchParams.set("code", "x".repeat(43));
    expect((await browser.load(wrong.href)).headers.location).toBe(
      `/sign-in?error=failed&return_to=${encodeURIComponent(paths[0]!)}`,
    );
    // A return that nobody began.
    wrong.searchParams.set("state", "y".repeat(43));
    expect((await browser.load(wrong.href)).headers.location).toContain("error=expired");
    expect((await browser.load(second)).headers.location).toBe(paths[1]);
    expect((await browser.load(third)).headers.location).toBe(paths[2]);
  });
});

describe("a tab that returns to a live session", () => {
  test("goes where it was going, also if its own sign-in fails, is repeated, or is over", async () => {
    const browser = createBrowser(publicUrl);
    const [first = "", second = ""] = await beginInTabs(browser);
    await browser.load(first);
    const token = sessionCookie(browser);
    const busy = new URL(second);
    busy.searchParams.delete("code");
    // What an issuer answers whose own sign-in was completed in another tab.
    busy.searchParams.set("error", "temporarily_unavailable");
    expect((await browser.load(busy.href)).headers.location).toBe(paths[1]);
    expect((await browser.load(first)).headers.location).toBe("/");
    expect(sessionCookie(browser)).toBe(token);
    await sessionOf(browser);
  });

  test("as another person signs that person in, and ends the session before", async () => {
    const browser = createBrowser(publicUrl);
    const [ofAda = ""] = await beginInTabs(browser);
    const atIssuer = createBrowser(publicUrl);
    await browser.load(ofAda);
    const before = new Map(browser.cookies);
    const start = await browser.load(`${publicUrl}/sign-in?return_to=/activity`);
    const ofBob = await passIssuer(atIssuer, start.headers.location ?? "", "bob");
    expect((await browser.load(ofBob)).headers.location).toBe("/activity");
    expect(await sessionOf(browser)).toMatchObject({ email: "bob@example.com" });
    const old = createBrowser(publicUrl);
    for (const [name, value] of before) old.cookies.set(name, value);
    await expect(sessionOf(old)).rejects.toThrow("signed out");
  });

  test("is told if the issuer names a person who may not sign in", async () => {
    issuer.state.accounts.set("eve", { email: "eve@example.com", email_verified: false });
    const browser = createBrowser(publicUrl);
    const [ofAda = ""] = await beginInTabs(browser);
    await browser.load(ofAda);
    const start = await browser.load(`${publicUrl}/sign-in`);
    const ofEve = await passIssuer(createBrowser(publicUrl), start.headers.location ?? "", "eve");
    expect((await browser.load(ofEve)).headers.location).toContain("error=email_not_verified");
    expect(await sessionOf(browser)).toMatchObject({ email: "ada@example.com" });
  });
});
