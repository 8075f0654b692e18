import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import type { FetchHandler } from "../src/fetch-handler.ts";
import { createNodeListener } from "../src/node-listener.ts";

/** The address of a server that asks the handler first, and else says what it has got. */
async function serve(handle: FetchHandler): Promise<string> {
  const listener = createNodeListener(handle, async (request, response) => {
    response.end(`next: ${request.method} ${await text(request)}`);
  });
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a request reaches the handler whole, and its response the caller", async () => {
  const at = await serve(async (request) => {
    const { pathname, search } = new URL(request.url);
    const body = `${request.method} ${pathname}${search} ${request.headers.get("x-a")} ${await request.text()}`;
    return new Response(body, {
      status: 201,
      headers: [
        ["set-cookie", "a=1"],
        ["set-cookie", "b=2"],
      ],
    });
  });
  const response = await fetch(`${at}/v1/a?b=%2F`, { method: "PUT", body: "sent", headers: { "x-a": "c" } });
  expect([response.status, await response.text()]).toEqual([201, "PUT /v1/a?b=%2F c sent"]);
  expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
});

test("what the handler leaves reaches the next listener with its body unread", async () => {
  const at = await serve(async () => undefined);
  const response = await fetch(`${at}/other`, { method: "POST", body: "sent" });
  expect(await response.text()).toBe("next: POST sent");
});

test("a target that is no path is left to the next listener", async () => {
  const { port } = new URL(await serve(async () => new Response("handled")));
  const response = await new Promise<string>((resolve, reject) => {
    httpRequest({ port, path: "*", method: "OPTIONS" }, (answer) => text(answer).then(resolve, reject)).end();
  });
  expect(response).toBe("next: OPTIONS ");
});

test("a target of two slashes is a path, and no other host", async () => {
  const { port } = new URL(await serve(async ({ url }) => new Response(new URL(url).pathname)));
  const answer = await new Promise<string>((resolve, reject) => {
    httpRequest({ port, path: "//other/v1" }, (response) => text(response).then(resolve, reject)).end();
  });
  expect(answer).toBe("//other/v1");
});

test("a handler that stops in the middle of a body still answers, and the connection stays", async () => {
  const at = await serve(async (request) => {
    for await (const _ of request.body ?? []) return new Response("enough", { status: 413 });
    return undefined;
  });
  const response = await fetch(at, { method: "POST", body: "a".repeat(1_000_000) });
  expect([response.status, await response.text()]).toEqual([413, "enough"]);
});

test("a caller that leaves aborts the request", async () => {
  const begun = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<void>();
  const at = await serve(async ({ signal }) => {
    signal.addEventListener("abort", () => aborted.resolve());
    begun.resolve();
    await aborted.promise;
    return new Response();
  });
  const leave = new AbortController();
  const answer = fetch(at, { signal: leave.signal }).catch(() => "left");
  await begun.promise;
  leave.abort();
  await aborted.promise;
  expect(await answer).toBe("left");
});
