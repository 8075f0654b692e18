import { createClient } from "@connectrpc/connect";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { AuditChannel, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { type Browser, createBrowser } from "../harness/browser.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { clientSecret, type Forgery } from "../harness/issuer.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { sessionOf, startWithIssuer } from "./with-issuer.ts";

const { publicUrl, issuer, keyrun, begin } = closedAtEnd(await startWithIssuer());
afterEach(() => {
  issuer.state.forgery = undefined;
});

let people = 0;

/** Creates an account at the issuer with a new e-mail. */
function newAccount(facts: Record<string, unknown> = {}) {
  people += 1;
  const [id, email] = [`subject-${people}`, `Person.${people}@Example.com`];
  issuer.state.accounts.set(id, { email, email_verified: true, ...facts });
  return { id, email: email.toLowerCase() };
}

async function signIn(account: string, path?: string) {
  const { browser, callback } = await begin(account, path);
  return { browser, callback, answer: await browser.load(callback) };
}

const sessionCookies = ({ cookies }: Browser) =>
  [...cookies.keys()].filter((name) => /^keyrun-\d+$/.test(name));

/** Returns the error that the page will show, and checks that nobody is signed in. */
function errorOf({ answer, browser }: Awaited<ReturnType<typeof signIn>>): string | null {
  expect(answer.status).toBe(302);
  expect(sessionCookies(browser)).toEqual([]);
  const location = new URL(answer.headers.location ?? "", publicUrl);
  expect(location.origin + location.pathname).toBe(`${publicUrl}/sign-in`);
  return location.searchParams.get("error");
}

describe("with an issuer", () => {
  test("a person signs in with the verified e-mail, in lower case, and returns to the page they came from", async () => {
    const { id, email } = newAccount();
    const { browser, answer } = await signIn(id, "/sign-in?return_to=/settings/team/demo/api-keys");
    expect(answer).toMatchObject({ status: 302, headers: { location: "/settings/team/demo/api-keys" } });
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(await sessionOf(browser)).toMatchObject({ email, previewAccess: false, teams: [] });
    expect([...browser.cookies.keys()].filter((name) => name.startsWith("keyrun-sign-in"))).toEqual([]);
  });

  test("a sign-in has one event, which names the person", async () => {
    const { id, email } = newAccount();
    await signIn(id);
    const { events } = await keyrun.audit.listEvents({ action: "session.sign_in", actor: email });
    expect(events).toMatchObject([{ channel: AuditChannel.SCREEN, outcome: AuditOutcome.DONE, teamId: "" }]);
  });

  test("membership and preview access go by e-mail", async () => {
    const { id, email } = newAccount();
    await keyrun.teams.addMember({ teamId: "demo", email: email.toUpperCase() });
    await keyrun.teams.setPreviewAccess({ email, granted: true });
    const { browser } = await signIn(id);
    expect(await sessionOf(browser)).toMatchObject({ email, previewAccess: true, teams: [{ id: "demo" }] });
  });

  test("the browser is sent there with the exact redirect URI, and new PKCE, state and nonce each time", async () => {
    const sent = [];
    for (let n = 0; n < 2; n++) {
      const { status, headers } = await createBrowser(publicUrl).load(`${publicUrl}/sign-in`);
      expect(status).toBe(302);
      expect(JSON.stringify(headers["set-cookie"])).toMatch(/HttpOnly; SameSite=Lax/);
      sent.push(new URL(headers.location ?? ""));
    }
    const [first, second] = sent.map(({ searchParams }) => Object.fromEntries(searchParams));
    expect(first).toMatchObject({
      response_type: "code",
      code_challenge_method: "S256",
      redirect_uri: `${publicUrl}/sign-in/callback`,
      scope: "openid email",
    });
    for (const name of ["state", "nonce", "code_challenge"]) {
      expect(first?.[name]).toMatch(/^[\w-]{43}$/);
      expect(first?.[name]).not.toBe(second?.[name]);
    }
  });

  test("a session can't be used after its e-mail got a new owner and that owner was let in", async () => {
    const { id, email } = newAccount();
    const { id: heir } = newAccount({ email });
    await keyrun.teams.addMember({ teamId: "demo", email });
    await keyrun.teams.setPreviewAccess({ email, granted: true });
    const create = ({ browser }: { browser: Browser }) =>
      createClient(KeyService, browser.transport).createKey({ teamId: "demo" });
    const before = await signIn(id);
    await create(before);

    await keyrun.teams.setPreviewAccess({ email, granted: false });
    const after = await signIn(heir);
    await keyrun.teams.setPreviewAccess({ email, granted: true });
    await create(after);
    await expect(create(before)).rejects.toThrow("[unauthenticated]");
  });

  test("an e-mail that only the userinfo endpoint returns is accepted", async () => {
    const { id, email } = newAccount();
    issuer.state.forgery = { claims: { email: undefined, email_verified: undefined } };
    const { browser } = await signIn(id);
    expect(await sessionOf(browser)).toMatchObject({ email });
  });

  test.each(["//evil.example", "https://evil.example/", "/\\evil.example", "/sign-in"])(
    "a sign-in that should return to %s returns to the screen's first page",
    async (returnTo) => {
      const { answer } = await signIn(newAccount().id, `/sign-in?return_to=${encodeURIComponent(returnTo)}`);
      expect(answer.headers.location).toBe("/");
    },
  );
});

describe("an ID token is refused", () => {
  const past = Math.floor(Date.UTC(2020, 0) / 1_000);
  const forgeries: Record<string, Forgery> = {
    "of another issuer": { claims: { iss: "https://other.example" } },
    "for another audience": { claims: { aud: "another-client" } },
    "for several audiences, given to another": { claims: { aud: ["keyrun", "other"], azp: "other" } },
    "without an audience": { claims: { aud: undefined } },
    "of another sign-in": { claims: { nonce: "another" } },
    "without a nonce": { claims: { nonce: undefined } },
    "that is too old": { claims: { exp: past, iat: past - 60 } },
    "without a subject": { claims: { sub: undefined } },
    "signed by a stranger": { signedBy: "stranger" },
    "signed with the client's own secret": { signedBy: "client secret" },
    "signed by nobody": { signedBy: "nobody" },
  };

  test.each(Object.entries(forgeries))("%s", async (_, forgery) => {
    const { id } = newAccount();
    issuer.state.forgery = forgery;
    expect(errorOf(await signIn(id))).toBe("failed");
    // Without a change the proxy's signature is accepted, so it was the change that was refused.
    issuer.state.forgery = { claims: {} };
    expect((await signIn(id)).answer.headers.location).toBe("/");
  });
});

describe("a sign-in is refused", () => {
  test.each([
    ["that is not verified", { email_verified: false }],
    ["that is called unverified by a text", { email_verified: "false" }],
    ["that has another word for it", { email_verified: "yes" }],
    ["that has a number for it", { email_verified: 1 }],
    ["that nobody vouches for", { email_verified: undefined }],
    ["that is missing", { email: undefined }],
    ["that is none", { email: "not an address" }],
  ])("with an e-mail %s", async (_, facts) => {
    expect(errorOf(await signIn(newAccount(facts).id))).toBe("email_not_verified");
  });

  test("if the e-mail is another subject's, until preview access is withdrawn from it", async () => {
    const { id, email } = newAccount();
    const { id: heir } = newAccount({ email: email.toUpperCase() });
    await signIn(id);
    expect(errorOf(await signIn(heir))).toBe("email_taken");
    await keyrun.teams.setPreviewAccess({ email, granted: false });
    expect(await sessionOf((await signIn(heir)).browser)).toMatchObject({ email });
    expect(errorOf(await signIn(id))).toBe("email_taken");
  });

  test("in a browser that did not begin it", async () => {
    const { callback } = await begin(newAccount().id);
    const browser = createBrowser(publicUrl);
    const asked = issuer.state.tokenRequests;
    expect(errorOf({ browser, callback, answer: await browser.load(callback) })).toBe("expired");
    expect(issuer.state.tokenRequests).toBe(asked);
  });

  test("in a browser that began another one, which goes on", async () => {
    const { callback } = await begin(newAccount().id);
    const { browser, callback: own } = await begin(newAccount().id);
    expect(errorOf({ browser, callback, answer: await browser.load(callback) })).toBe("expired");
    expect((await browser.load(own)).headers.location).toBe("/");
  });

  test.each([
    ["state", "expired"],
    ["iss", "failed"],
    ["code", "failed"],
  ])("if %s is not what the issuer sent", async (name, error) => {
    const { browser, callback } = await begin(newAccount().id);
    const url = new URL(callback);
    expect(url.searchParams.get(name)).not.toBeNull();
    url.searchParams.set(name, name === "iss" ? "https://other.example" : "x".repeat(43));
    expect(errorOf({ browser, callback, answer: await browser.load(url.href) })).toBe(error);
  });

  test("the second time, even if the browser kept its cookie", async () => {
    const { browser, callback } = await begin(newAccount().id);
    const kept = new Map(browser.cookies);
    await browser.load(callback);
    const again = createBrowser(publicUrl);
    for (const [name, value] of kept) again.cookies.set(name, value);
    expect(errorOf({ browser: again, callback, answer: await again.load(callback) })).toBe("failed");
    expect(errorOf({ browser: again, callback, answer: await again.load(callback) })).toBe("expired");
  });

  test("if the person declined, and the page says so", async () => {
    const browser = createBrowser(publicUrl);
    const page = await browser.visit(`${publicUrl}/sign-in?return_to=/settings`);
    const abort = /href="([^"]+\/abort)"/.exec(page.body)?.[1] ?? "";
    let url = new URL(abort, page.url).href;
    while (!url.startsWith(`${publicUrl}/sign-in/callback`)) {
      url = new URL((await browser.load(url)).headers.location ?? "", url).href;
    }
    const answer = await browser.load(url);
    expect(errorOf({ browser, callback: url, answer })).toBe("access_denied");
    expect(answer.headers.location).toContain("return_to=%2Fsettings");
  });
});

describe("an issuer that can't be reached", () => {
  test("shows a page that says so, does not stop the start, and is tried again later", async () => {
    const [port, issuerPort] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${port}`;
    const settings = { ...issuer.settings(url), KEYRUN_OIDC_ISSUER: `http://127.0.0.1:${issuerPort}` };
    const own = await startKeyrun({ settings: { KEYRUN_PORT: String(port), ...settings } });
    onTestFinished(() => own.close());
    const answer = await createBrowser(url).load(`${url}/sign-in`);
    expect(answer).toMatchObject({
      status: 302,
      headers: { location: "/sign-in?error=provider_unavailable&return_to=%2F" },
    });
    const warnings = own.logLines.filter((line) => line.includes('"level":"warn"')).join("");
    expect(warnings).toContain(`connect ECONNREFUSED 127.0.0.1:${issuerPort}`);
    expect(warnings).not.toContain("fetch failed");
    // The page itself is not redirected again.
    expect((await createBrowser(url).load(`${url}/sign-in?error=failed`)).status).not.toBe(302);
  });
});

test("an issuer that does not accept Keyrun's secret is reported to the operator, in a warning without the secret", async () => {
  const settings = { KEYRUN_OIDC_CLIENT_SECRET: "another-secret" };
  const other = await startWithIssuer({ settings });
  onTestFinished(other.close);
  const { browser, callback } = await other.begin();
  const answer = await browser.load(callback);
  expect(answer.headers.location).toBe("/sign-in?error=provider_unavailable&return_to=%2F");
  const warnings = other.keyrun.logLines.filter((line) => line.includes('"level":"warn"'));
  expect(warnings.join("")).toContain("invalid_client");
  expect(warnings.join("")).not.toContain("another-secret");
});

test("the log lines of refused sign-ins hold no code, no token and no secret", async () => {
  const { id } = newAccount();
  issuer.state.forgery = { claims: { aud: "another-client" } };
  const { callback } = await signIn(id);
  const told = keyrun.logLines.join("");
  expect(told).toContain("SIGN_IN_FAILED");
  expect(told).not.toContain(new URL(callback).searchParams.get("code"));
  expect(told).not.toContain(new URL(callback).searchParams.get("state"));
  expect(told).not.toContain(clientSecret);
  expect(told).not.toMatch(/eyJ[\w-]+\./);
});

test("there are no one-time links if people sign in at an issuer", async () => {
  const browser = createBrowser(publicUrl);
  const answer = await browser.openLink(`${publicUrl}/sign-in/link#code=${"A".repeat(43)}`);
  expect(answer.status).toBe(404);
});
