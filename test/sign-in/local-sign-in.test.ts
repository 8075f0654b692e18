import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, onTestFinished, test } from "vitest";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { createBrowser } from "../harness/browser.ts";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { startKeyrun, withAuthorization } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";
import { newSignInLink } from "../harness/members.ts";

const keyrun = closedAtEnd(await startKeyrun());
const folders = tempFolders();

const post = (body: string, headers: Record<string, string> = {}) => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body,
});
const codeOf = (link: string) => new URLSearchParams(new URL(link).hash.slice(1)).get("code");

describe("a one-time link", () => {
  test("signs the owner in once, with a new cookie, and its response may not be cached", async () => {
    const link = await newSignInLink(keyrun);
    expect(link).toMatch(new RegExp(`^${keyrun.publicUrl}/sign-in/link#code=`));
    const browser = createBrowser(keyrun.publicUrl);
    const answer = await browser.openLink(link);
    expect(answer).toMatchObject({ status: 204, body: "", headers: { "cache-control": "no-store" } });
    const session = await createClient(SessionService, browser.transport).getSession({});
    expect(session.email).toBe("owner@localhost");

    const again = await createBrowser(keyrun.publicUrl).openLink(link);
    expect(again.status).toBe(401);
    expect(JSON.parse(again.body)).toMatchObject({
      error: { code: "invalid_sign_in_code", type: "authentication_error", status: "UNAUTHENTICATED" },
    });
    expect(again.headers["set-cookie"]).toBeUndefined();
  });

  test("opened in a browser that is signed in ends the old session", async () => {
    const browser = createBrowser(keyrun.publicUrl);
    await browser.openLink(await newSignInLink(keyrun));
    const before = new Map(browser.cookies);
    await browser.openLink(await newSignInLink(keyrun));
    expect(browser.cookies).not.toEqual(before);
    await createClient(SessionService, browser.transport).getSession({});
    for (const [name, value] of before) browser.cookies.set(name, value);
    await expect(createClient(SessionService, browser.transport).getSession({})).rejects.toMatchObject({
      code: Code.Unauthenticated,
    });
  });

  test("is not used up by a request from another site, for another host or in another form", async () => {
    const link = await newSignInLink(keyrun);
    const browser = createBrowser(keyrun.publicUrl);
    const url = `${keyrun.publicUrl}/sign-in/code`;
    const body = JSON.stringify({ code: codeOf(link) });
    const refused: [number, Parameters<typeof browser.load>[1]][] = [
      [403, post(body, { "sec-fetch-site": "cross-site" })],
      [403, post(body, { "sec-fetch-site": "none" })],
      [421, post(body, { host: "evil.example" })],
      [415, post(body, { "content-type": "text/plain" })],
      [415, post(body, { "content-type": "application/x-www-form-urlencoded" })],
      [413, post(`${body}${" ".repeat(1_024)}`)],
      [401, post("{")],
      [401, post("[]")],
      [401, post(JSON.stringify({ code: codeOf(link), more: 1 }))],
      [405, { method: "GET" }],
      [405, { ...post(body), method: "PUT" }],
    ];
    for (const [status, request] of refused) expect((await browser.load(url, request)).status).toBe(status);
    expect(browser.cookies.size).toBe(0);
    expect((await browser.load(url, post(body))).status).toBe(204);
  });

  test("is never logged, and neither is the cookie that it gives", async () => {
    const link = await newSignInLink(keyrun);
    const browser = createBrowser(keyrun.publicUrl);
    await browser.openLink(link);
    await browser.openLink(link);
    const told = keyrun.logLines.join("");
    expect(told).toContain("INVALID_SIGN_IN_CODE");
    expect(told).not.toContain(codeOf(link));
    for (const value of browser.cookies.values()) expect(told).not.toContain(value);
  });
});

describe("off the loopback, without an issuer", () => {
  test("there is no screen, no sign-in and no session, and asking for a link says which settings to set", async () => {
    const own = await startKeyrun({ settings: { KEYRUN_HOST: "0.0.0.0" } });
    try {
      const port = own.app.publicAddress.port;
      const origin = `http://127.0.0.1:${port}`;
      const browser = createBrowser(origin);
      for (const path of [
        "/",
        "/sign-in",
        "/sign-in/link",
        "/sign-in/callback",
        "/settings/team/demo/api-keys",
      ]) {
        expect((await browser.load(origin + path)).status).toBe(404);
      }
      expect((await browser.load(`${origin}/sign-in/code`, post('{"code":"x"}'))).status).toBe(404);
      const noSession = createClient(SessionService, browser.transport).getSession({});
      await expect(noSession).rejects.toMatchObject({ code: Code.Unimplemented });
      await expect(newSignInLink(own)).rejects.toThrow("set KEYRUN_PUBLIC_URL, KEYRUN_OIDC_ISSUER");
      expect((await browser.load(`${origin}/healthz`)).status).toBe(200);
    } finally {
      await own.close();
    }
  });
});

test("where the screen is not built, asking for a link says the command that builds it, also in production", async () => {
  const own = await startKeyrun({ screenFolder: join(folders.create(), "nothing") });
  try {
    await expect(newSignInLink(own)).rejects.toThrow(
      `The screen is not built: run \`npm ci --include=dev\` in ${repository.replace(/\/$/, "")}, which builds it, and start`,
    );
  } finally {
    await own.close();
  }
});

test("without a screen the documentation is there all the same, and security.txt, which names it by the address that is known", async () => {
  const screenFolder = folders.create();
  mkdirSync(join(screenFolder, "docs"));
  for (const name of ["index.html", "docs/api.html", "docs/security.html"]) {
    writeFileSync(join(screenFolder, name), `<!doctype html><title>${name}</title>`);
  }
  const contactOf = async (settings: Record<string, string>, host: string) => {
    const own = await startKeyrun({ settings: { KEYRUN_HOST: "0.0.0.0", ...settings }, screenFolder });
    try {
      const origin = `http://127.0.0.1:${own.app.publicAddress.port}`;
      const load = (path: string) => createBrowser(origin).load(origin + path, { headers: { host } });
      for (const path of ["/docs/api", "/docs/security"]) expect((await load(path)).status).toBe(200);
      for (const path of ["/", "/sign-in", "/index.html"]) expect((await load(path)).status).toBe(404);
      const { status, headers, body } = await load("/.well-known/security.txt");
      expect({ status, hsts: "strict-transport-security" in headers }).toEqual({
        status: 200,
        hsts: "KEYRUN_PUBLIC_URL" in settings,
      });
      return /^Contact: (.*)$/m.exec(body)?.[1];
    } finally {
      await own.close();
    }
  };
  const page = "/docs/security#how-to-report-a-fault";
  const publicUrl = { KEYRUN_PUBLIC_URL: "https://keys.example.com" };
  expect(await contactOf(publicUrl, "10.0.0.1:8080")).toBe(`https://keys.example.com${page}`);
  expect(await contactOf({}, "Keys.example.com")).toBe(`https://keys.example.com${page}`);
  expect(await contactOf({}, "localhost:8080")).toBe(`http://localhost:8080${page}`);
});

test("with an issuer a service gets no link, and the refusal says where to sign in", async () => {
  const port = await freePort();
  const own = await startKeyrun({
    settings: {
      KEYRUN_PORT: String(port),
      KEYRUN_PUBLIC_URL: "https://keyrun.example.com",
      KEYRUN_OIDC_ISSUER: "https://id.example",
      KEYRUN_OIDC_CLIENT_ID: "keyrun",
      KEYRUN_OIDC_CLIENT_SECRET: "for-tests-only",
    },
  });
  try {
    const refusal = await newSignInLink(own).catch((thrown: unknown) => ConnectError.from(thrown));
    expect(refusal).toMatchObject({ code: Code.FailedPrecondition });
    expect(String(refusal)).toContain("https://keyrun.example.com/sign-in");
  } finally {
    await own.close();
  }
});

test("a service has no session to read or end", async () => {
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, interceptors });
  const sessions = createClient(SessionService, transport);
  await expect(sessions.getSession({})).rejects.toMatchObject({ code: Code.Unauthenticated });
  await expect(sessions.signOut({})).rejects.toMatchObject({ code: Code.Unauthenticated });
});

test.each([
  ["KEYRUN_DATA_DIR=/srv/data ./keyrun", "./keyrun"],
  ["KEYRUN_DATA_DIR='/srv/my data' keyrun", "keyrun"],
  ["KEYRUN_DATA_DIR=/srv/data /opt/keyrun/keyrun", "keyrun"],
])("with an issuer the screen learns no folder of the machine: for %s it says %s", async (command, said) => {
  const screenFolder = folders.create();
  const page = '<!doctype html><meta name="keyrun-command" content="" />';
  writeFileSync(join(screenFolder, "index.html"), page);
  const settings = {
    KEYRUN_PUBLIC_URL: "http://127.0.0.1:8080",
    KEYRUN_OIDC_ISSUER: "https://id.example",
    KEYRUN_OIDC_CLIENT_ID: "keyrun",
    KEYRUN_OIDC_CLIENT_SECRET: "for-tests-only",
  };
  const own = await startKeyrun({ settings, screenFolder, command });
  onTestFinished(() => own.close());
  const { origin } = new URL(settings.KEYRUN_PUBLIC_URL);
  const { body } = await createBrowser(own.publicUrl).load(`${own.publicUrl}/`, {
    headers: { host: new URL(origin).host },
  });
  expect(body).toBe(page.replace('content=""', `content="${said}"`));
});
