import { createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { type Browser, createBrowser } from "../harness/browser.ts";
import { eventually, whileAnswer, whileBusy } from "../harness/eventually.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { freePort } from "../harness/free-port.ts";
import { type Issuer, passIssuer, startIssuer } from "../harness/issuer.ts";
import type { Keyrun } from "../harness/keyrun.ts";

describeFleet("here")("people sign in to a fleet, not to an instance", () => {
  let publicUrl: string;
  let issuer: Issuer;
  let fleet: FleetHere;
  beforeAll(async () => {
    const port = await freePort();
    publicUrl = `http://127.0.0.1:${port}`;
    issuer = await startIssuer(`${publicUrl}/sign-in/callback`);
    issuer.state.accounts.set("ada", { email: "ada@example.com", email_verified: true });
    const ports = { settings: { KEYRUN_PORT: String(port) } };
    fleet = await startFleet({ in: "here", settings: issuer.settings(publicUrl), each: [ports, {}] });
  });
  afterAll(async () => {
    await fleet.close();
    await issuer.close();
  });

  /** Loads a page of the fleet's address from this instance, as behind a balancer. */
  const load = (
    browser: Browser,
    instance: Keyrun,
    url: string,
    request: { method?: string; body?: string } = {},
  ) => {
    const at = new URL(url);
    const { host } = at;
    at.port = new URL(instance.publicUrl).port;
    return browser.load(at.href, {
      ...request,
      headers: { host, "content-type": "application/json", "connect-protocol-version": "1" },
    });
  };
  /** Asks again where the store was too slow for it, or the instance without its lease. */
  const call = (browser: Browser, instance: Keyrun, method: string) =>
    eventually(
      () =>
        load(browser, instance, `${publicUrl}/keyrun.v1.SessionService/${method}`, {
          method: "POST",
          body: "{}",
        }),
      whileAnswer(({ status }) => status === 503),
    );

  /** Begins anew where the store was too slow for the end of it: a code is good for one try. */
  async function signIn(): Promise<Browser> {
    const { browser, answer } = await eventually(
      async () => {
        const browser = createBrowser(publicUrl);
        const callback = await passIssuer(browser, `${publicUrl}/sign-in`, "ada");
        return { browser, answer: await load(browser, fleet.members[1], callback) };
      },
      whileAnswer(({ answer }) => answer.status === 503),
    );
    expect(answer).toMatchObject({ status: 302, headers: { location: "/" } });
    return browser;
  }

  test("a sign-in begun on one ends on the other, and both know the person", async () => {
    const browser = await signIn();
    for (const instance of [fleet.members[0], fleet.members[1]]) {
      const answer = await call(browser, instance, "GetSession");
      expect([answer.status, JSON.parse(answer.body).email]).toEqual([200, "ada@example.com"]);
    }
    const sessions = createClient(SessionService, browser.transport);
    expect((await eventually(() => sessions.getSession({}), whileBusy)).email).toBe("ada@example.com");
  });

  test("a sign-out on one is final on the other with the very next request, although it knew the session", async () => {
    for (let n = 0; n < 10; n++) {
      const browser = await signIn();
      const [leaving, staying] =
        n % 2 === 0 ? [fleet.members[0], fleet.members[1]] : [fleet.members[1], fleet.members[0]];
      expect((await call(browser, staying, "GetSession")).status).toBe(200);
      const before = new Map(browser.cookies);
      expect((await call(browser, leaving, "SignOut")).status).toBe(200);
      for (const [name, value] of before) browser.cookies.set(name, value);
      expect((await call(browser, staying, "GetSession")).status).toBe(401);
      expect((await call(browser, leaving, "GetSession")).status).toBe(401);
    }
  });

  test("there are no one-time links, and the refusal says where to sign in", async () => {
    await expect(fleet.members[0].sessions.createSignInLink({})).rejects.toThrow(
      `Sign in at ${publicUrl}/sign-in`,
    );
  });
});
