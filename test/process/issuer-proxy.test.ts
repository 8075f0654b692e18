import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { passIssuer, startIssuer } from "../harness/issuer.ts";
import { keyrunCommand, serveKeyrun } from "../harness/keyrun-process.ts";
import { describeWith } from "../harness/needs.ts";
import { startForwardProxy } from "./forward-proxy.ts";

const folders = tempFolders();

test("with NODE_USE_ENV_PROXY, every request to the issuer goes through the proxy of the environment", async () => {
  const port = await freePort();
  const publicUrl = `http://127.0.0.1:${port}`;
  const issuer = await startIssuer(`${publicUrl}/sign-in/callback`);
  onTestFinished(() => issuer.close());
  issuer.state.accounts.set("ada", { email: "ada@example.com", email_verified: true });
  issuer.state.forgery = { claims: { email: undefined } };
  const proxy = await startForwardProxy();
  onTestFinished(() => proxy.close());
  const keyrun = await serveKeyrun(folders.create(), {
    ...issuer.settings(publicUrl),
    KEYRUN_PORT: String(port),
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: proxy.url,
  });
  onTestFinished(async () => {
    keyrun.kill("SIGTERM");
    await keyrun.exited;
  });
  const browser = createBrowser(publicUrl);
  const callback = await passIssuer(browser, `${publicUrl}/sign-in`, "ada");
  expect((await browser.load(callback)).headers.location).toBe("/");
  expect(issuer.state).toMatchObject({ tokenRequests: 1, userinfoRequests: 1 });
  // undici may forward a plain request, or open a tunnel for it.
  const ways = proxy.asked.join("\n");
  const { host } = new URL(issuer.url);
  const paths = ["/.well-known/openid-configuration", "/token", "/jwks", "/me"];
  const isTunnelled = ways.includes(`CONNECT ${host}`);
  expect(isTunnelled || paths.every((path) => ways.includes(`http://${host}${path}`))).toBe(true);
});

describeWith(hasOpenssl ? undefined : "there is no openssl")("an issuer of HTTPS", () => {
  test("is reached by a tunnel through the proxy, and trusted by NODE_EXTRA_CA_CERTS", async () => {
    const { caFile, certFile, keyFile } = makeCertificates(folders.create());
    const server = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    // Nothing listens there: only the proxy knows the way.
    const authority = `localhost:${await freePort()}`;
    const issuer = `https://${authority}`;
    server.on("request", (_, res) => {
      const metadata = {
        issuer,
        authorization_endpoint: `${issuer}/auth`,
        token_endpoint: `${issuer}/token`,
      };
      res.setHeader("content-type", "application/json").end(JSON.stringify(metadata));
    });
    const proxy = await startForwardProxy(() => (server.address() as AddressInfo).port);
    onTestFinished(() => proxy.close());
    const settings = {
      KEYRUN_DATA_DIR: folders.create(),
      KEYRUN_PUBLIC_URL: "https://keyrun.example.com",
      KEYRUN_OIDC_ISSUER: issuer,
      KEYRUN_OIDC_CLIENT_ID: "keyrun",
      KEYRUN_OIDC_CLIENT_SECRET: "not-a-secret-of-anyone",
    };
    const through = { NODE_USE_ENV_PROXY: "1", HTTPS_PROXY: proxy.url };
    const doctor = async (environment: Record<string, string>) =>
      (await keyrunCommand({ ...settings, ...environment }, ["doctor"])).stdout;

    const trusting = await doctor({ ...through, NODE_EXTRA_CA_CERTS: caFile });
    expect(trusting).toContain(`ok     issuer: ${issuer} answers`);
    expect(proxy.asked).toContain(`CONNECT ${authority}`);
    expect(await doctor(through)).toMatch(
      /^wrong {2}issuer: .*(self-signed certificate|unable to verify|unable to get)/m,
    );
    expect(await doctor({ NODE_EXTRA_CA_CERTS: caFile })).toMatch(/^wrong {2}issuer: .*ECONNREFUSED/m);
  });
});
