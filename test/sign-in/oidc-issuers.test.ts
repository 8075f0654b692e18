import { describe, expect, onTestFinished, test } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import type { Forgery } from "../harness/issuer.ts";
import { email, sessionOf, startWithIssuer } from "./with-issuer.ts";

async function startBoth(options: Parameters<typeof startWithIssuer>[0] = {}) {
  const both = await startWithIssuer(options);
  /** Where the browser is sent after the sign-in, and who is then signed in. */
  async function signIn(forgery?: Forgery) {
    both.issuer.state.forgery = forgery;
    const { browser, callback } = await both.begin();
    const { headers } = await browser.load(callback);
    const session = await sessionOf(browser).catch(() => undefined);
    return { location: headers.location ?? "", email: session?.email };
  }
  return { ...both, signIn };
}

const both = closedAtEnd(await startBoth());

describe("an issuer that says in its userinfo alone", () => {
  const refused = { location: "/sign-in?error=email_not_verified&return_to=%2F", email: undefined };

  test("that the e-mail is verified signs people in, as Okta", async () => {
    expect(await both.signIn({ claims: { email_verified: undefined } })).toEqual({ location: "/", email });
  });

  test("what the e-mail is signs people in, as Authelia", async () => {
    const thin = { email: undefined, email_verified: undefined };
    expect(await both.signIn({ claims: thin })).toEqual({ location: "/", email });
    expect(await both.signIn({ claims: thin, userinfo: { email_verified: "true" } })).toEqual({
      location: "/",
      email,
    });
  });

  test("that the e-mail is another one, or not verified, signs nobody in", async () => {
    const claims = { email_verified: undefined };
    for (const userinfo of [{ email: "eve@example.com" }, { email_verified: false }, { email: undefined }]) {
      expect(await both.signIn({ claims, userinfo })).toEqual(refused);
    }
    expect(await both.signIn({ claims: { email: undefined, email_verified: false } })).toEqual(refused);
  });

  test("something of another subject signs nobody in", async () => {
    const outcome = await both.signIn({ claims: { email_verified: undefined }, userinfo: { sub: "eve" } });
    expect(outcome).toEqual({ location: "/sign-in?error=failed&return_to=%2F", email: undefined });
  });

  test("is not asked there if the ID token says both", async () => {
    const asked = both.issuer.state.userinfoRequests;
    expect(await both.signIn()).toEqual({ location: "/", email });
    expect(both.issuer.state.userinfoRequests).toBe(asked);
  });
});

test("an issuer that never says whether an e-mail is verified, as Entra, needs the operator's word", async () => {
  const unsaid = { claims: { email_verified: undefined }, userinfo: { email_verified: undefined } };
  const strict = await startBoth();
  onTestFinished(() => strict.close());
  expect((await strict.signIn(unsaid)).location).toContain("error=email_not_verified");
  const assuming = await startBoth({ settings: { KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED: "true" } });
  onTestFinished(() => assuming.close());
  expect(await assuming.signIn(unsaid)).toEqual({ location: "/", email });
  const denied = { ...unsaid, userinfo: { email_verified: false } };
  expect((await assuming.signIn(denied)).location).toContain("error=email_not_verified");
});

test("an issuer that names Basic and refuses it from this client needs the other way in the settings", async () => {
  const wrong = await startBoth({ refusesBasic: true });
  onTestFinished(() => wrong.close());
  expect((await wrong.signIn()).location).toContain("error=provider_unavailable");
  const settings = { KEYRUN_OIDC_CLIENT_AUTH_METHOD: "client_secret_post" };
  const right = await startBoth({ refusesBasic: true, settings });
  onTestFinished(() => right.close());
  expect(await right.signIn()).toEqual({ location: "/", email });
});

describe("what the log says of sign-ins at the default level", () => {
  test("is why each was refused, alike ones joined, and who may see nothing", async () => {
    const both = await startBoth();
    const past = Math.floor(Date.UTC(2020, 0) / 1_000);
    const unsaid = { claims: { email_verified: undefined }, userinfo: { email_verified: undefined } };
    const forgeries: [detail: string, Forgery][] = [
      ["cause=wrong_clock", { claims: { exp: past, iat: past - 60 } }],
      ["cause=wrong_token claim=aud", { claims: { aud: "another-client" } }],
      ["cause=wrong_token claim=nonce", { claims: { nonce: "another" } }],
      ["cause=wrong_token", { signedBy: "stranger" }],
      ["cause=wrong_token claim=sub", { claims: { email: undefined }, userinfo: { sub: "eve" } }],
      ["cause=email_not_verified", { claims: { email_verified: false } }],
      ["cause=email_verified_unsaid", unsaid],
      ["cause=email_missing", { claims: { email: undefined }, userinfo: { email: undefined } }],
      ["cause=email_differs", { claims: { email_verified: undefined }, userinfo: { email: "b@b.org" } }],
      ["cause=email_malformed", { claims: { email: "ada" } }],
    ];
    for (const [, forgery] of forgeries) await both.signIn(forgery);
    await both.signIn(forgeries[0]![1]);
    const { publicUrl, keyrun } = both;
    const callback = `${publicUrl}/sign-in/callback?code=x&state=${"x".repeat(43)}`;
    for (let n = 0; n < 3; n++) await createBrowser(publicUrl).load(callback);
    expect((await both.signIn()).location).toBe("/");
    await keyrun.teams.addMember({ teamId: "demo", email });
    await both.signIn();
    await keyrun.teams.setPreviewAccess({ email, granted: true });
    await both.signIn();
    await both.close();

    const lines = keyrun.logLines.map((line) => JSON.parse(line));
    const told = lines
      .filter(({ level, audit }) => level === "info" && audit?.action === "session.sign_in")
      .map(({ audit: { actor, outcome, detail, count } }) => ({ actor, outcome, detail, count }));
    const unknown = { actor: "unknown", outcome: "refused" };
    // A minute may end in between: then what is alike stands in two events.
    const countOf = (detail: string) =>
      told.filter((event) => event.detail === detail).reduce((sum, { count }) => sum + count, 0);
    for (const [detail] of forgeries) {
      expect(told).toContainEqual({ ...unknown, detail, count: expect.any(Number) });
      expect(countOf(detail)).toBe(detail === "cause=wrong_clock" ? 2 : 1);
    }
    expect(countOf("cause=expired")).toBe(3);
    const done = told.filter(({ outcome }) => outcome === "done").map(({ detail }) => detail);
    expect(done).toEqual(["member=false preview=false", "preview=false", ""]);
  });
});
