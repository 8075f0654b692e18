import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { request as send } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { screenFolder } from "../harness/screen-build.ts";

/** All of a first visit, as a browser that asks over HTTPS or on the loopback is sent it. */
const brotliBytesMax = 130 * 1024;
/** The same for who takes gzip alone: a proxy between, or plain HTTP. */
const gzipBytesMax = 137 * 1024;
const files = globSync("**/*.{html,js,css}", { cwd: screenFolder });

let keyrun: Keyrun;
beforeAll(async () => {
  keyrun = await startKeyrun({ screenFolder });
});
afterAll(() => keyrun.close());

test("all that the first page needs is small, in each form that is sent", async () => {
  expect(files.length).toBeGreaterThan(3);
  const paths = files.map((name) => (name === "index.html" ? "" : name));
  for (const [encoding, bytesMax] of [
    ["br", brotliBytesMax],
    ["gzip", gzipBytesMax],
  ] as const) {
    const sent = await Promise.all(
      paths.map((path) => load(`${keyrun.publicUrl}/${path}`, { "accept-encoding": encoding })),
    );
    const bytes = sent.reduce((sum, { body }) => sum + body.length, 0);
    process.stdout.write(`The screen weighs ${(bytes / 1024).toFixed(1)} KiB by ${encoding}.\n`);
    expect(bytes).toBeLessThanOrEqual(bytesMax);
  }
});

test("each file of the page is served compressed, may be kept for ever, and is not sent twice", async () => {
  const assets = files.filter((name) => name.startsWith("assets/"));
  expect(assets.length).toBeGreaterThan(2);
  for (const name of assets) {
    const url = `${keyrun.publicUrl}/${name}`;
    const plain = readFileSync(join(screenFolder, name));
    for (const [encoding, decode] of [
      ["br", brotliDecompressSync],
      ["gzip", gunzipSync],
    ] as const) {
      const { headers, body } = await load(url, { "accept-encoding": encoding });
      // What would be no smaller is sent as it is.
      const sent = headers["content-encoding"] === undefined ? body : decode(body);
      expect(sent.equals(plain)).toBe(true);
      expect(body.length).toBeLessThanOrEqual(plain.length);
      if (plain.length > 1_000) expect(headers["content-encoding"]).toBe(encoding);
      expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
      expect(headers.vary).toBe("Accept-Encoding");
      const again = await load(url, { "accept-encoding": encoding, "if-none-match": headers.etag! });
      expect({ status: again.status, bytes: again.body.length }).toEqual({ status: 304, bytes: 0 });
    }
  }
});

test("the document names only files that are there, and holds no script and no style of its own", () => {
  const html = readFileSync(join(screenFolder, "index.html"), "utf8");
  const named = [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, name]) => name);
  expect(named.length).toBeGreaterThan(2);
  const present = globSync("**/*", { cwd: screenFolder });
  expect(named.filter((name) => !present.includes(name!))).toEqual([]);
  expect(html).not.toMatch(/<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=/);
});

/** Loads a URL and leaves the body as it was sent. */
async function load(url: string, headers: Record<string, string>) {
  const request = send(url, { headers });
  request.end();
  const [response] = await once(request, "response");
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) };
}
