import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { createCaller } from "../../../web/api/caller.ts";

import { failureOf } from "../../../web/api/failure.ts";
import { rpcs } from "../../../web/api/rpcs.ts";
import { envelope, openStream } from "../../../web/api/stream.ts";
import { bounds } from "../../../web/bounds.ts";
import { createCell } from "../../../web/cell.ts";
import { createBrowser } from "../../harness/browser.ts";
import { startKeyrun } from "../../harness/keyrun.ts";

test("a signed-in person gets answers of one message and of a stream, and refusals with their reason", async () => {
  const { keyrun, caller, sessionEnded } = await signedIn();
  sessionEnded.set(true);
  expect((await caller.call(rpcs.getSession, {})).teams?.map(({ id }) => id)).toEqual(["demo"]);
  expect(sessionEnded.get()).toBe(false);

  const stop = new AbortController();
  const seen: unknown[] = [];
  for await (const { opened, created } of openStream(
    caller,
    rpcs.watchKeys,
    { teamId: "demo" },
    { signal: stop.signal },
  )) {
    if (opened) await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    if (created) seen.push(created.label);
    if (seen.length > 0) break;
  }
  expect(seen).toEqual(["ci-deploy"]);

  const refused = await failed(caller.call(rpcs.listKeys, { teamId: "acme" }));
  expect(refused).toMatchObject({
    reason: "TEAM_NOT_FOUND",
    code: "team_not_found",
    signedOut: false,
    mayHaveHappened: false,
  });
  expect(refused.requestId).toMatch(/^[0-9a-f-]{36}$/);
  expect(refused.message.length).toBeGreaterThan(10);
  const refusedStream = await failed(first(openStream(caller, rpcs.watchKeys, { teamId: "acme" })));
  expect(refusedStream).toMatchObject({ reason: "TEAM_NOT_FOUND", code: "team_not_found" });
});

test("the metadata of a refusal arrives", async () => {
  const { caller } = await signedIn();
  const request = { teamId: "demo", requestId: "8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d" };
  const { key } = await caller.call(rpcs.createKey, request);
  const again = await failed(caller.call(rpcs.createKey, request));
  expect(again).toMatchObject({ reason: "REQUEST_ID_USED", metadata: { key_id: key?.id } });
});

test("without a session, a call and a stream say so", async () => {
  const { keyrun } = await signedIn();
  for (const kind of ["call", "stream"] as const) {
    const sessionEnded = createCell(false);
    const caller = createCaller(keyrun.publicUrl, sessionEnded, fetch);
    const answer =
      kind === "call"
        ? caller.call(rpcs.listKeys, { teamId: "demo" })
        : first(openStream(caller, rpcs.watchKeys, { teamId: "demo" }));
    expect(await failed(answer)).toMatchObject({ signedOut: true });
    expect(sessionEnded.get()).toBe(true);
  }
});

test("a stream is read however its bytes are cut, up to the message that ends it", async () => {
  const messages = ["ä", "𐍈", "ok"].map((label) => envelope(JSON.stringify({ created: { label } })));
  const bytes = Buffer.concat([...messages, ended({})]);
  const { caller } = await serving(async (_, response) => {
    response.writeHead(200, { "content-type": "application/connect+json" });
    for (const byte of bytes) {
      response.write(Buffer.from([byte]));
      await nextTurn();
    }
    response.end();
  });
  const labels: unknown[] = [];
  for await (const { created } of openStream(caller, rpcs.watchKeys, { teamId: "demo" })) {
    if (created) labels.push(created.label);
  }
  expect(labels).toEqual(["ä", "𐍈", "ok"]);
});

test.each([
  ["is cut off", Buffer.alloc(0)],
  ["announces a message over the bound", over()],
  ["is compressed, which the page has not asked for", compressed()],
])("a stream that %s fails as one without an answer", async (_, bytes) => {
  const { caller } = await serving((_request, response) => {
    response.writeHead(200, { "content-type": "application/connect+json" }).end(bytes);
  });
  const failure = await failed(first(openStream(caller, rpcs.watchKeys, { teamId: "demo" })));
  expect(failure).toMatchObject({ reason: null, mayHaveHappened: true });
});

test.each([
  [200, "text/html", "unknown"],
  [502, "text/html", "unavailable"],
  [404, "text/html", "unimplemented"],
])(
  "an answer %i of %s, which is not Keyrun's, is a failure that may have happened",
  async (status, type, code) => {
    const { caller } = await serving((_, response) => {
      response.writeHead(status, { "content-type": type }).end("<h1>Welcome to this network</h1>");
    });
    for (const answer of [
      caller.call(rpcs.listKeys, { teamId: "demo" }),
      first(openStream(caller, rpcs.watchKeys, { teamId: "demo" })),
    ]) {
      const failure = await failed(answer);
      expect(failure).toMatchObject({ reason: null, code, signedOut: false, mayHaveHappened: true });
      expect(failure.message).toBe("Keyrun can’t be reached.");
    }
  },
);

test("without a connection, a call may have happened", async () => {
  const { url, close } = await serving(() => {});
  await close();
  const caller = createCaller(url, createCell(false), fetch);
  const failure = await failed(caller.call(rpcs.listKeys, { teamId: "demo" }));
  expect(failure).toMatchObject({ code: "unknown", requestId: null, mayHaveHappened: true });
});

/** A caller with the session of a new Keyrun's first person. */
async function signedIn() {
  const keyrun = await startKeyrun();
  onTestFinished(() => keyrun.close());
  const browser = createBrowser(keyrun.publicUrl);
  await browser.openLink((await keyrun.sessions.createSignInLink({})).url);
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const sessionEnded = createCell(false);
  const asPage: typeof fetch = (url, init) =>
    fetch(url, { ...init, headers: { ...init?.headers, cookie, "sec-fetch-site": "same-origin" } });
  return { keyrun, sessionEnded, caller: createCaller(keyrun.publicUrl, sessionEnded, asPage) };
}

async function serving(answer: RequestListener) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(close);
  return { url, close, caller: createCaller(url, createCell(false), fetch) };
}

async function first<T>(stream: AsyncIterable<T>): Promise<T | undefined> {
  for await (const message of stream) return message;
  return undefined;
}

async function failed(answer: Promise<unknown>) {
  return failureOf(
    await answer.then(
      () => undefined,
      (thrown: unknown) => thrown,
    ),
  );
}

function ended(message: object): Buffer {
  const bytes = Buffer.from(envelope(JSON.stringify(message)));
  bytes[0] = 0b10;
  return bytes;
}

function over(): Buffer {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt32BE(bounds.streamMessageBytesMax + 1, 1);
  return bytes;
}

function compressed(): Buffer {
  const bytes = Buffer.from(envelope("{}"));
  bytes[0] = 0b01;
  return bytes;
}
