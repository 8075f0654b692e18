import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { request as send } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { screenFolder } from "../harness/screen-build.ts";

/**
 * The most that a first visit loads before it shows a team's keys, by gzip. By brotli it is less.
 */
const firstViewBytesMax = 101_300;
/**
 * The most that is loaded after that, when the browser is idle. Of these bytes, 600 are the
 * programs that read a stream, in three languages; 1,800 what follows the live changes of keys;
 * 5,400 the expiry, restrictions and rotation of a key; 3,000 the usage of keys, its chart and its
 * lines; 3,100 the page of a team's activity, 300 of them for what exactly was done and 200 for its
 * search; 500 the menu of a key and the note that a session has ended; 200 what asks a guard; and
 * 300 the JSON that a run sends.
 */
const lazyBytesMax = 27_100;
const files = globSync("**/*.{html,js,css,svg}", { cwd: screenFolder });

const keyrun = closedAtEnd(await startKeyrun({ screenFolder }));

test("the first view and the lazy parts keep within their budgets, in each encoding", async () => {
  const first = firstViewFiles();
  const lazy = files.filter((name) => !first.includes(name) && !/(^|\/)docs[/-]/.test(name));
  expect(first.length).toBeGreaterThan(3);
  expect(lazy.length).toBeGreaterThan(0);
  for (const encoding of ["br", "gzip"]) {
    const firstBytes = await bytesOf(first, encoding);
    const lazyBytes = await bytesOf(lazy, encoding);
    process.stdout.write(
      `The first view weighs ${firstBytes} bytes by ${encoding}, the rest ${lazyBytes}.\n`,
    );
    expect(firstBytes).toBeLessThanOrEqual(firstViewBytesMax);
    expect(lazyBytes).toBeLessThanOrEqual(lazyBytesMax);
  }
});

test("no file holds the generated code of the protos, which parses its descriptors at each start", () => {
  const scripts = files.filter((name) => name.endsWith(".js"));
  const texts = scripts.map((name) => readFileSync(join(screenFolder, name), "utf8"));
  expect(texts.join("")).toContain("keyrun.v1.KeyService/ListKeys");
  expect(texts.join("")).not.toContain("FileDescriptorProto");
});

test("the document names only files that exist, and holds no inline script or style", () => {
  const html = readFileSync(join(screenFolder, "index.html"), "utf8");
  const named = [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, name]) => name);
  expect(named.length).toBeGreaterThan(2);
  const present = globSync("**/*", { cwd: screenFolder });
  expect(named.filter((name) => !present.includes(name!))).toEqual([]);
  expect(html).not.toMatch(/<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=/);
});

/** The document, the files that it names, and the files that those import statically. */
function firstViewFiles(): string[] {
  const found = ["index.html"];
  for (const name of found) {
    const text = readFileSync(join(screenFolder, name), "utf8");
    const named = name.endsWith(".html")
      ? [...text.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, file]) => file!)
      : [...text.matchAll(/\b(?:from|import)\s*["'`]\.\/([^"'`]+)["'`]/g)].map(
          ([, file]) => `assets/${file}`,
        );
    found.push(...named.filter((file) => !found.includes(file)));
  }
  return found;
}

async function bytesOf(names: readonly string[], encoding: string): Promise<number> {
  const paths = names.map((name) => (name === "index.html" ? "" : name));
  const sent = await Promise.all(
    paths.map((path) => load(`${keyrun.publicUrl}/${path}`, { "accept-encoding": encoding })),
  );
  return sent.reduce((sum, { body }) => sum + body.length, 0);
}

/** Loads a URL. Returns the body as it was sent, without decompression. */
async function load(url: string, headers: Record<string, string>) {
  const request = send(url, { headers });
  request.end();
  const [response] = await once(request, "response");
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) };
}
