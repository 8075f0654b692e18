import { createHmac, createSign, generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  request as send,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import Provider from "oidc-provider";
import type { Browser } from "./browser.ts";

/** What to change in the answers of the issuer. Without changes they are always right. */
export interface Forgery {
  /** Claims to set in ID tokens, or to remove if undefined. */
  readonly claims?: Readonly<Record<string, unknown>>;
  /** The same for the answers of the userinfo endpoint. */
  readonly userinfo?: Readonly<Record<string, unknown>>;
  /** Which key signs the token; the issuer's if absent. */
  readonly signedBy?: "stranger" | "client secret" | "nobody";
}

export interface Account {
  readonly email?: unknown;
  readonly email_verified?: unknown;
}

/** A real OpenID Connect provider on a loopback port. A proxy before it can forge its ID tokens. */
export type Issuer = Awaited<ReturnType<typeof startIssuer>>;

const clientId = "keyrun";
export const clientSecret = "client-secret-for-tests-only";

interface IssuerOptions {
  /** The issuer refuses a client that sends its secret by HTTP Basic, as Authelia can. */
  readonly refusesBasic?: boolean;
}

export async function startIssuer(redirectUri: string, { refusesBasic = false }: IssuerOptions = {}) {
  const state = {
    forgery: undefined as Forgery | undefined,
    accounts: new Map<string, Account>(),
    tokenRequests: 0,
    userinfoRequests: 0,
  };
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const stranger = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const front = createServer();
  const url = await listen(front);
  const back = createServer(
    createProvider(url, { redirectUri, privateKey, accounts: state.accounts }).callback(),
  );
  const backUrl = await listen(back);
  front.on("request", (req, res) => {
    const { forgery } = state;
    if (req.url === "/token") state.tokenRequests += 1;
    if (req.url === "/me") state.userinfoRequests += 1;
    if (req.url === "/token" && refusesBasic && req.headers.authorization !== undefined) {
      res.writeHead(401, { "content-type": "application/json" }).end('{"error":"invalid_client"}');
      return;
    }
    void forward(req, res, backUrl, (body) => {
      if (req.url === "/token" && forgery) return forge(body, forgery, { privateKey, stranger });
      if (req.url === "/me" && forgery?.userinfo) {
        return JSON.stringify({ ...JSON.parse(body), ...forgery.userinfo });
      }
      return body;
    });
  });
  return {
    url,
    state,
    settings: (publicUrl: string) => ({
      KEYRUN_PUBLIC_URL: publicUrl,
      KEYRUN_OIDC_ISSUER: url,
      KEYRUN_OIDC_CLIENT_ID: clientId,
      KEYRUN_OIDC_CLIENT_SECRET: clientSecret,
    }),
    async close() {
      for (const server of [front, back]) {
        server.close();
        server.closeAllConnections();
      }
    },
  };
}

/**
 * Signs the account in at the issuer, from the page that Keyrun sent the browser to. Returns the
 * address that the issuer sends the browser back to, and does not load it.
 */
export async function passIssuer(browser: Browser, start: string, account: string): Promise<string> {
  let page = await browser.load(start);
  let url = start;
  for (let steps = 0; steps < 20; steps++) {
    if (page.status >= 300 && page.status < 400) {
      url = new URL(page.headers.location ?? "", url).href;
      if (new URL(url).pathname === "/sign-in/callback") return url;
      page = await browser.load(url);
      continue;
    }
    const action = /<form[^>]* action="([^"]+)"/.exec(page.body)?.[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(page.body)?.[1];
    if (!action || !prompt) throw new Error(`a page without a form at ${url}: ${page.status}`);
    url = new URL(action, url).href;
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const body = new URLSearchParams({ prompt, login: account, password: "any" }).toString();
    page = await browser.load(url, { method: "POST", headers, body });
  }
  throw new Error("the issuer asks without end");
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function createProvider(
  url: string,
  {
    redirectUri,
    privateKey,
    accounts,
  }: { redirectUri: string; privateKey: KeyObject; accounts: Map<string, Account> },
): Provider {
  const jwk = { ...privateKey.export({ format: "jwk" }), kid: "issuer", use: "sig", alg: "RS256" };
  return new Provider(url, {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
    jwks: { keys: [jwk as never] },
    cookies: { keys: [randomBytes(16).toString("hex")] },
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 600, IdToken: 600 },
    features: { devInteractions: { enabled: true } },
    findAccount: (_, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, ...accounts.get(accountId) }) as never,
    }),
  });
}

async function forward(
  req: IncomingMessage,
  res: ServerResponse,
  backUrl: string,
  change: (body: string) => string,
): Promise<void> {
  const onward = send(`${backUrl}${req.url}`, { method: req.method ?? "GET", headers: req.headers });
  req.pipe(onward);
  const [answer]: IncomingMessage[] = await once(onward, "response");
  const body = change(await text(answer!));
  const { "content-length": _, "transfer-encoding": __, ...headers } = answer!.headers;
  res.writeHead(answer!.statusCode ?? 500, headers).end(body);
}

function forge(
  body: string,
  { claims, signedBy }: Forgery,
  keys: { privateKey: KeyObject; stranger: KeyObject },
): string {
  const answer = JSON.parse(body);
  if (answer.id_token === undefined) return body;
  const [header, payload] = String(answer.id_token)
    .split(".")
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));
  const alg = signedBy === "client secret" ? "HS256" : signedBy === "nobody" ? "none" : "RS256";
  const signed = [
    { ...header, alg },
    { ...payload, ...claims },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  return JSON.stringify({ ...answer, id_token: `${signed}.${signatureOf(signed, signedBy, keys)}` });
}

function signatureOf(
  signed: string,
  signedBy: Forgery["signedBy"],
  { privateKey, stranger }: { privateKey: KeyObject; stranger: KeyObject },
): string {
  if (signedBy === "nobody") return "";
  if (signedBy === "client secret") {
    return createHmac("sha256", clientSecret).update(signed).digest("base64url");
  }
  const key = signedBy === "stranger" ? stranger : privateKey;
  return createSign("RSA-SHA256").update(signed).sign(key, "base64url");
}
