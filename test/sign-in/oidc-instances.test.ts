import { randomBytes } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { passIssuer, startIssuer } from "../harness/issuer.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";

const [oldSecret, newSecret] = [randomBytes(32), randomBytes(32)].map((each) => each.toString("base64url"));
const instances: Record<string, Keyrun> = {};

const port = await freePort();
const publicUrl = `http://127.0.0.1:${port}`;
const issuer = closedAtEnd(await startIssuer(`${publicUrl}/sign-in/callback`));
issuer.state.accounts.set("ada", { email: "ada@example.com", email_verified: true });
const start = (secrets: string, settings: Record<string, string> = {}) =>
  startKeyrun({ settings: { ...issuer.settings(publicUrl), KEYRUN_SECRET: secrets, ...settings } });
instances.first = await start(`${oldSecret}`, { KEYRUN_PORT: String(port) });
instances["of the same secret"] = await start(`${oldSecret}`);
instances["that has the new secret as well"] = await start(`${oldSecret},${newSecret}`);
instances["that makes digests with the new secret already"] = await start(`${newSecret},${oldSecret}`);
instances["of another service"] = await start(`${newSecret}`);
afterAll(async () => {
  for (const instance of Object.values(instances)) await instance.close();
});

/** Begins a sign-in on the first instance, and ends it on another, as behind a balancer. */
async function signInOver(name: string) {
  const browser = createBrowser(publicUrl);
  const callback = await passIssuer(
    browser,
    `${publicUrl}/sign-in?return_to=/settings/team/demo/api-keys`,
    "ada",
  );
  const other = new URL(instances[name]!.publicUrl);
  const url = new URL(callback);
  url.port = other.port;
  const answer = await browser.load(url.href, { headers: { host: new URL(publicUrl).host } });
  return { browser, answer };
}

test.each([
  "of the same secret",
  "that has the new secret as well",
  "that makes digests with the new secret already",
])("a sign-in that one instance began ends on another %s", async (name) => {
  const { browser, answer } = await signInOver(name);
  expect(answer).toMatchObject({ status: 302, headers: { location: "/settings/team/demo/api-keys" } });
  expect([...browser.cookies.keys()]).toContainEqual(expect.stringMatching(/^keyrun-\d+$/));
});

test("a sign-in does not end where the secrets are others, and the page says that it has expired", async () => {
  const { browser, answer } = await signInOver("of another service");
  expect(answer).toMatchObject({
    status: 302,
    headers: { location: expect.stringContaining("error=expired") },
  });
  expect([...browser.cookies.keys()].filter((name) => name.startsWith("keyrun"))).toEqual([]);
});
