import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { request as send } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { createScreenHandler, readScreenFiles } from "#src/http/screen.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { jsonAnswer, serveHandler } from "../harness/served-handler.ts";

const folders = tempFolders();
const script = `console.log(${JSON.stringify("keyrun ".repeat(500))})`;
const documentWith = (command: string) =>
  `<!doctype html><meta name="keyrun-command" content="${command}" />${"<p>Keyrun</p>".repeat(20)}`;
const page = documentWith("keyrun");
/** A command may name a folder that is called anything. */
const command = `KEYRUN_DATA_DIR='/srv/"<a> & $&' keyrun`;
const commands = `<!doctype html><pre>${"curl -sS http://127.0.0.1:8080/api/apps/echo/run\n".repeat(20)}</pre>`;
const picture = Buffer.from([0x89, 0x50, 0x4e, 0x47]);
const elsewhere = jsonAnswer(404, { elsewhere: true });

const clock = createManualClock();
const site = { secure: false, isOwn: true, origin: "https://keys.example.com" };
const folder = folders.create();
mkdirSync(join(folder, "assets"));
writeFileSync(join(folder, "index.html"), page);
writeFileSync(join(folder, "assets", "main-abc.js"), script);
writeFileSync(join(folder, "assets", "main-abc.js.br"), brotliCompressSync(script));
writeFileSync(join(folder, "assets", "main-abc.js.gz"), gzipSync(script));
writeFileSync(join(folder, "assets", "a.png"), picture);
writeFileSync(join(folder, "robots.txt"), "none");
mkdirSync(join(folder, "docs"));
for (const name of ["api.html", "security.html"]) writeFileSync(join(folder, "docs", name), page);
writeFileSync(join(folder, "docs", "commands.html"), commands);
writeFileSync(join(folder, "docs", "commands.html.br"), brotliCompressSync(commands));
const files = await readScreenFiles(folder, command);
const served = await serveHandler(
  createScreenHandler({
    files: files!,
    isOwnHost: () => site.isOwn,
    address: () => ({ origin: site.origin, secure: site.secure }),
    clock,
    next: () => elsewhere,
  }),
);
afterAll(async () => {
  served.listener.destroy();
});

async function load(
  path: string,
  { method = "GET", headers = {} }: { method?: string; headers?: object } = {},
) {
  const request = send(served.url, { method, headers: { ...headers }, path, agent: false }).end();
  const [response] = await once(request, "response");
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) };
}

describe("the document", () => {
  test.each([
    "/",
    "/settings",
    "/settings/team/demo/api-keys",
    "/sign-in",
    "/sign-in?error=failed",
    "/sign-in/link",
  ])("is at %s, and must not be cached", async (path) => {
    const answer = await load(path);
    expect(answer).toMatchObject({ status: 200, headers: { "cache-control": "no-store" } });
    expect(answer.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(answer.headers.etag).toBeUndefined();
    expect(answer.body.toString()).toBe(
      documentWith("KEYRUN_DATA_DIR='/srv/&#34;&#60;a&#62; &#38; $&#38;' keyrun"),
    );
  });

  test("says what calls the command line in each coding that it is sent in", async () => {
    const { body: plain } = await load("/");
    for (const [coding, unpack] of [
      ["br", brotliDecompressSync],
      ["gzip", gunzipSync],
    ] as const) {
      const { headers, body } = await load("/", { headers: { "accept-encoding": coding } });
      expect(headers["content-encoding"]).toBe(coding);
      expect(unpack(body)).toEqual(plain);
    }
  });

  test.each([
    "/index.html",
    "/settingsx",
    "/sign-in/",
    "/sign-in/code",
    "/api/apps/echo/run",
    "/assets",
    "/assets/",
    "/assets/missing.js",
    "/assets/main-abc.js.br",
    "/docs/api.html",
    "/docs/missing",
    "/assets/main-abc.js.gz",
    "/assets/../index.html",
    "/%2e%2e/index.html",
    "//",
  ])("is not at %s, which goes to the next handler", async (path) => {
    expect(JSON.parse((await load(path)).body.toString())).toEqual({ elsewhere: true });
  });

  test.each(["/docs", "/docs/"])("%s leads to the first page of the documentation", async (path) => {
    const { status, headers } = await load(path);
    expect({ status, location: headers.location }).toEqual({ status: 302, location: "/docs/api" });
  });

  test("of the documentation has its own path, and may be kept", async () => {
    const answer = await load("/docs/api");
    expect(answer).toMatchObject({ status: 200, headers: { "cache-control": "no-cache" } });
    expect(answer.body.toString()).toBe(page);
    const known = await load("/docs/api", { headers: { "if-none-match": answer.headers.etag! } });
    expect(known.status).toBe(304);
  });

  test("of the documentation has commands for the address of this server, in each coding", async () => {
    const origins = ["https://keys.example.com", "http://10.0.0.1:8080", 'http://a"><b>&'];
    for (const origin of origins) {
      site.origin = origin;
      const expected = commands.replaceAll(
        "http://127.0.0.1:8080",
        origin.replace('"><b>&', "&#34;&#62;&#60;b&#62;&#38;"),
      );
      const plain = await load("/docs/commands");
      expect(plain.body.toString()).toBe(expected);
      const br = await load("/docs/commands", { headers: { "accept-encoding": "br" } });
      expect(brotliDecompressSync(br.body).toString()).toBe(expected);
      expect(br.headers["content-encoding"]).toBe("br");
      const known = await load("/docs/commands", { headers: { "if-none-match": plain.headers.etag! } });
      expect(known.status).toBe(304);
    }
    site.origin = "https://keys.example.com";
    // What was kept of one address is not taken for that of another.
    expect((await load("/docs/commands")).body.toString()).not.toContain("10.0.0.1");
  });

  test("says where to report a fault, in a text that is the same for a day", async () => {
    const texts: string[] = [];
    for (const hours of [0, 1, 24]) {
      clock.advance(hours * 3_600_000);
      const answer = await load("/.well-known/security.txt");
      expect(answer.status).toBe(200);
      expect(answer.headers["content-type"]).toBe("text/plain; charset=utf-8");
      texts.push(answer.body.toString());
    }
    const textOf = (expires: string) => `Contact: https://keys.example.com/docs/security#how-to-report-a-fault
Expires: ${expires}
Preferred-Languages: en
Canonical: https://keys.example.com/.well-known/security.txt
`;
    const first = textOf("2023-12-14T00:00:00.000Z");
    expect(texts).toEqual([first, first, textOf("2023-12-15T00:00:00.000Z")]);
    expect((await load("/docs/security")).body.toString()).toBe(page);
  });

  test("may run only its own files, may not be framed, and may not turn text into script", async () => {
    const { headers } = await load("/");
    expect(headers).toMatchObject({
      "content-security-policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'",
      "cross-origin-opener-policy": "same-origin",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
    expect(headers["strict-transport-security"]).toBeUndefined();
    site.secure = true;
    expect((await load("/")).headers["strict-transport-security"]).toBe("max-age=31536000");
    site.secure = false;
  });
});

describe("a file", () => {
  const path = "/assets/main-abc.js";

  test("with its hash in its name is cached for ever, and has the same headers", async () => {
    const { headers } = await load(path);
    expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
    expect(headers["content-type"]).toBe("text/javascript; charset=utf-8");
    expect(headers["content-security-policy"]).toContain("default-src 'none'");
    expect((await load("/robots.txt")).headers["cache-control"]).toBe("no-cache");
  });

  test.each([
    ["br, gzip", "br", brotliDecompressSync],
    ["gzip, deflate, BR", "br", brotliDecompressSync],
    ["br;q=0.1, gzip;q=1", "gzip", gunzipSync],
    ["gzip;q=0.5, br;q=0.6, identity;q=0.4", "br", brotliDecompressSync],
    ["gzip;q=0.5, identity", undefined, (plain: Buffer) => plain],
    ["gzip;q=1.0, br;q=0", "gzip", gunzipSync],
    ["gzip", "gzip", gunzipSync],
    ["br;q=0.000, gzip; q=0", undefined, (plain: Buffer) => plain],
    ["identity", undefined, (plain: Buffer) => plain],
    ["*", undefined, (plain: Buffer) => plain],
  ])("for a browser that accepts %j is sent complete as %s", async (accept, encoding, unpack) => {
    const answer = await load(path, { headers: { "accept-encoding": accept } });
    expect(answer.headers["content-encoding"]).toBe(encoding);
    expect(answer.headers.vary).toBe("Accept-Encoding");
    expect(unpack(answer.body).toString()).toBe(script);
    expect(answer.body.length < script.length).toBe(encoding !== undefined);
  });

  test("that compression would make larger is not compressed", async () => {
    const answer = await load("/assets/a.png", { headers: { "accept-encoding": "br, gzip" } });
    expect(answer.headers["content-encoding"]).toBeUndefined();
    expect(answer.body).toEqual(picture);
  });

  test("that the browser has in this form is not sent again", async () => {
    const br = { "accept-encoding": "br" };
    const { headers } = await load(path, { headers: br });
    const known = { "if-none-match": `"x", W/${headers.etag}` };
    const again = await load(path, { headers: { ...br, ...known } });
    expect(again).toMatchObject({ status: 304, headers: { etag: headers.etag } });
    expect(again.body).toHaveLength(0);
    expect((await load(path, { headers: known })).status).toBe(200);
    expect((await load(path, { headers: { "if-none-match": "*" } })).status).toBe(304);
    // What must not be stored can't be known.
    expect((await load("/", { headers: { "if-none-match": "*" } })).status).toBe(200);
  });
});

describe("document and files", () => {
  test("answer HEAD like GET, without a body", async () => {
    for (const path of ["/", "/assets/main-abc.js"]) {
      const [head, get] = [await load(path, { method: "HEAD" }), await load(path)];
      expect(head.body).toHaveLength(0);
      const { date: _, "x-request-id": __, ...headers } = get.headers;
      expect(head).toMatchObject({ status: 200, headers });
    }
  });

  test("refuse every other method", async () => {
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
      expect(await load("/", { method })).toMatchObject({ status: 405, headers: { allow: "GET, HEAD" } });
    }
  });

  test("are refused as misdirected under another host", async () => {
    site.isOwn = false;
    expect((await load("/")).status).toBe(421);
    expect((await load("/assets/main-abc.js")).status).toBe(421);
    expect((await load("/api/x")).status).toBe(404);
    site.isOwn = true;
  });
});

test("a screen that is not built is not served", async () => {
  expect(await readScreenFiles(join(folders.create(), "dist"), "keyrun")).toBeUndefined();
  expect(await readScreenFiles(folders.create(), "keyrun")).toBeUndefined();
});
