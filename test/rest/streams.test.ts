import { create, type DescService, type Message } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Admission } from "#src/admission/admission.ts";
import { unguarded } from "#src/auth/key-evidence.ts";
import { systemClock } from "#src/base/clock.ts";
import { fail } from "#src/refusal/refusal.ts";
import { createRestHandler } from "#src/rest/rest-handler.ts";
import type { RestMethod } from "#src/rest/rest-method.ts";
import { createTranscoder } from "#transcode/transcoder.ts";
import { bufRegistry } from "../harness/buf-image.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { serveMounts } from "../harness/served-handler.ts";

const registry = await bufRegistry(`
syntax = "proto3";
package news.v1;
import "google/api/annotations.proto";

service News {
  rpc Watch(WatchRequest) returns (stream Event) {
    option (google.api.http) = {
      get: "/v1/news/{topic}"
      additional_bindings { get: "/v1/news/{topic}/texts" response_body: "text" }
    };
  }
  rpc Look(WatchRequest) returns (Event) { option (google.api.http) = { get: "/v1/now/{topic}" }; }
}
service Faulty {
  rpc Watch(WatchRequest) returns (stream Event) {
    option (google.api.http) = { get: "/v1/news" response_body: "fault" };
  }
}
service Ending {
  rpc Watch(WatchRequest) returns (stream Span) { option (google.api.http) = { get: "/v1/news" }; }
}
service Living {
  rpc Watch(WatchRequest) returns (stream Life) { option (google.api.http) = { get: "/v1/news" }; }
}
service Sending {
  rpc Watch(stream WatchRequest) returns (Event) { option (google.api.http) = { get: "/v1/news" }; }
}
service Talking {
  rpc Watch(stream WatchRequest) returns (stream Event) { option (google.api.http) = { get: "/v1/news" }; }
}
message WatchRequest { string topic = 1; }
message Event { string text = 1; int32 number = 2; Fault fault = 3; }
message Fault { string error = 1; }
message Span { string begin = 1; string finish = 2 [json_name = "end"]; }
message Life { string ping = 1; }
`);

function newsService(name: string): DescService {
  const service = registry.getService(`news.v1.${name}`);
  if (!service) throw new Error(`no service ${name}`);
  return service;
}

const news = newsService("News");
const transcoder = createTranscoder([news]);

function event(text: string, number = 0): Message {
  return create(news.method.watch!.output, { text, number });
}

const rate = {
  policy: "team",
  decision: { accepted: true, limit: 10, remaining: 9, resetUnixMs: 0, retryAfterMs: 0 },
} as const;
const admission: Admission = {
  kind: "admitted",
  principal: { kind: "api_key", keyId: "k", teamId: "t", restrictions: null },
  plan: "free",
  rate,
  rateNow: () => ({ ...rate, decision: { ...rate.decision, remaining: 7 } }),
};

/** Serves the news behind a real listener: `watch` is the work of the method that streams. */
async function serveNews(watch: RestMethod["answer"], streamQuietMs?: number) {
  const served = await serveMounts((outcomes) => {
    const handler = createRestHandler({
      transcoder,
      outcomes,
      ...(streamQuietMs !== undefined && { streamQuietMs }),
      clock: systemClock,
      bodyBytesMax: 1024,
      policy: { credentialOf: () => "api_key", requestBytesMaxOf: (_, usualMax) => usualMax },
      admit: async () => admission,
      allowance: { guard: unguarded, snapshot: () => undefined },
      methods: [
        { method: transcoder.bindings[0]!.method, answer: watch },
        { method: transcoder.bindings[2]!.method, answer: () => event("now") },
      ],
    });
    return () => ({ handler, entry: "rest", refusalForm: "json" });
  });
  onTestFinished(() => served.listener.destroy());
  return served;
}

/** A work whose second message waits, and what it sees of its end. */
function stalled(first: Message | undefined) {
  const begun = Promise.withResolvers<void>();
  const seen = { aborted: false, returned: false };
  const work: RestMethod["answer"] = (_, { signal }) => {
    begun.resolve();
    signal.addEventListener("abort", () => {
      seen.aborted = true;
    });
    let next = first;
    const iterator = {
      next() {
        const value = next;
        next = undefined;
        return value ? Promise.resolve({ done: false, value }) : new Promise<never>(() => {});
      },
      return() {
        seen.returned = true;
        return Promise.resolve({ done: true as const, value: undefined });
      },
    };
    return { [Symbol.asyncIterator]: () => iterator };
  };
  return { seen, work, begun: begun.promise };
}

const ndjson = { accept: "application/x-ndjson" };

const linesOf = (text: string): unknown[] =>
  text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));

const line = (json: string) => `${json}\n`;
const ofLines = [line, '{"end":{}}\n', '{"ping":{}}\n'] as const;

describe.each([
  ["text/event-stream", (json: string) => `data: ${json}\n\n`, "event: end\ndata: {}\n\n", ": ping\n\n"],
  ["application/x-ndjson", ...ofLines],
  ["application/ndjson", ...ofLines],
  ["application/jsonl", ...ofLines],
])("as %s", (type, framed, end, ping) => {
  const headers = { accept: type };

  test("a message is sent before the next one exists, and the end is told and is one success", async () => {
    const next = Promise.withResolvers<void>();
    const { url, refusals, successes } = await serveNews(async function* (_, { responseHeaders }) {
      responseHeaders.set("x-source", "press");
      yield event("one", 1);
      await next.promise;
      yield event("two\nlines", 2);
    });
    const answer = await fetch(`${url}/v1/news/sport`, {
      headers: { ...headers, "x-request-id": "mine", "accept-encoding": "gzip, br" },
    });
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": type === "text/event-stream" ? "text/event-stream; charset=utf-8" : type,
      "cache-control": "no-store, no-transform",
      "x-accel-buffering": "no",
      "x-request-id": "mine",
      "ratelimit-remaining": "7",
      "x-source": "press",
    });
    expect(answer.headers.has("content-encoding")).toBe(false);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect(await reader.read()).toEqual({ done: false, value: framed('{"text":"one","number":1}') });
    expect(successes).toEqual([]);
    next.resolve();
    expect(await restOf(reader)).toBe(framed('{"text":"two\\nlines","number":2}') + end);
    expect(successes).toEqual(["rest"]);
    expect(refusals).toEqual([]);
  });

  test("with a response body each message is that field, also over HTTP/2", async () => {
    const { url, successes } = await serveNews(async function* () {
      yield event("one");
      yield event("two");
    });
    const session = await h2cSession(url);
    expect(await h2cRequest(session, { ":path": "/v1/news/sport/texts", ...headers })).toMatchObject({
      status: 200,
      body: framed('"one"') + framed('"two"') + end,
    });
    session.close();
    expect(successes).toHaveLength(1);
  });

  test("a stream without a message is a success that has only its end", async () => {
    const { url, successes, refusals } = await serveNews(async function* () {});
    const answer = await fetch(`${url}/v1/news/sport`, { headers });
    expect([answer.status, await answer.text()]).toEqual([200, end]);
    expect([successes.length, refusals.length]).toEqual([1, 0]);
  });

  test("a message is not produced before the one before it is sent", async () => {
    const { url } = await serveNews(async function* () {
      for (let number = 1; number <= 300; number += 1) yield event("x".repeat(1_000), number);
    });
    const text = await (await fetch(`${url}/v1/news/sport`, { headers })).text();
    const numbers = Array.from(text.matchAll(/"number":(\d+)/g), ([, digits]) => Number(digits));
    expect(numbers).toEqual(Array.from({ length: 300 }, (_, index) => index + 1));
  });

  test("a stream that says nothing sends its head after a while, and a failure is then told in it", async () => {
    const { seen, work } = stalled(undefined);
    const { url, requests, refusals } = await serveNews(work, 30);
    const answer = await fetch(`${url}/v1/news/sport`, { headers });
    expect([answer.status, answer.headers.get("content-type")?.split(";")[0]]).toEqual([200, type]);
    requests.abortAll(fail("UNAVAILABLE"));
    const text = await answer.text();
    expect(text.startsWith(ping)).toBe(true);
    expect(text.replaceAll(ping, "")).toMatch(/^(event: error\ndata: )?\{"error":\{.*"unavailable"/);
    expect(seen).toEqual({ aborted: true, returned: true });
    expect(refusals.map(({ reason }) => reason)).toEqual(["UNAVAILABLE"]);
  });

  test("every silence has a sign of life, which is never inside of a message", async () => {
    const { work } = stalled(event("one", 1));
    const { url, requests } = await serveNews(work, 20);
    const answer = await fetch(`${url}/v1/news/sport`, { headers });
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes(ping.repeat(3))) text += (await reader.read()).value ?? "";
    expect(text.replaceAll(ping, "")).toBe(framed('{"text":"one","number":1}'));
    requests.abortAll(fail("UNAVAILABLE"));
    expect(await restOf(reader)).toContain('{"error":{');
  });

  test("no character at which a reader of lines cuts stands raw, in a message or in a refusal", async () => {
    const { url } = await serveNews(async function* () {
      yield event(cutAt, 1);
      throw fail("APP_REFUSED", { problem: cutAt });
    });
    const text = await (await fetch(`${url}/v1/news/sport`, { headers })).text();
    expect(text.replaceAll("\n", "")).not.toMatch(new RegExp(`[${cutAt}]`));
    const [message, fault] = Array.from(text.matchAll(/\{.+\}/g), ([json]) => JSON.parse(json));
    expect(message).toEqual({ text: cutAt, number: 1 });
    expect(fault.error.message).toContain("\u0085\u2028\u2029");
  });
});

/** Where `str.splitlines` of Python cuts. No other usual reader cuts at more. */
const cutAt = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029";

test.each([
  [undefined, "text/event-stream"],
  ["*/*", "text/event-stream"],
  ["text/event-stream", "text/event-stream"],
  ["application/json", "text/event-stream"],
  ["application/problem+json", "text/event-stream"],
  ["text/*", "text/event-stream"],
  ["application/x-ndjson", "application/x-ndjson"],
  ["Application/X-NDJSON; charset=utf-8", "application/x-ndjson"],
  ["application/x-ndjson, */*", "application/x-ndjson"],
  ["application/x-ndjson, text/event-stream", "text/event-stream"],
  ["application/x-ndjson;q=0.9, text/event-stream;q=0.1", "application/x-ndjson"],
  ["application/x-ndjson;q=0.1, text/event-stream;q=0.9", "text/event-stream"],
  ["application/x-ndjson;q=0.5, */*;q=0.6", "text/event-stream"],
  ["application/x-ndjson;q=0", "text/event-stream"],
  ["application/problem+json, application/x-ndjson", "application/x-ndjson"],
  ["application/ndjson; charset=utf-8", "application/ndjson"],
  ["application/jsonl, */*;q=0.1", "application/jsonl"],
  ["application/x-ndjson;q=0.5, application/jsonl", "application/jsonl"],
  ["application/*", "application/x-ndjson"],
  ["application/jsonlines", "text/event-stream"],
])("a caller that accepts %s gets %s", async (accept, type) => {
  const { url } = await serveNews(async function* () {});
  const session = await h2cSession(url);
  const path = { ":path": "/v1/news/sport" };
  const answer = await h2cRequest(session, accept === undefined ? path : { ...path, accept });
  session.close();
  expect(answer.headers["content-type"]?.split(";")[0]).toBe(type);
});

async function restOf(reader: ReadableStreamDefaultReader<string>): Promise<string> {
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
}

test("a refusal before the first message is a whole refusal with its status", async () => {
  const { url, successes, refusals } = await serveNews(async function* () {
    await Promise.reject(fail("APP_NOT_FOUND", { metadata: { app_id: "sport" } }));
    yield event("never");
  });
  const answer = await fetch(`${url}/v1/news/sport`);
  expect(answer.status).toBe(404);
  expect(answer.headers.get("content-type")).toBe("application/json");
  expect(answer.headers.get("ratelimit-remaining")).toBe("7");
  expect(await answer.json()).toMatchObject({ error: { code: "app_not_found" } });
  expect(refusals.map(({ reason }) => reason)).toEqual(["APP_NOT_FOUND"]);
  expect(successes).toEqual([]);
});

test.each([
  ["application/x-ndjson", (text: string) => linesOf(text)[1]],
  ["text/event-stream", (text: string) => JSON.parse(/\n\nevent: error\ndata: (.*)\n\n$/.exec(text)![1]!)],
])(
  "as %s a refusal after the first message is told last, in the form of all refusals, and counted once",
  async (type, faultIn) => {
    const refusal = fail("APP_FAILED", { cause: new Error("its pipe broke") });
    const late = await serveNews(async function* () {
      yield event("one", 1);
      throw refusal;
    });
    const early = await serveNews(() => {
      throw refusal;
    });
    const headers = { "x-request-id": "mine", accept: type };
    const whole = await fetch(`${early.url}/v1/news/sport`, { headers });
    const answer = await fetch(`${late.url}/v1/news/sport`, { headers });
    expect(answer.status).toBe(200);
    const fault = faultIn(await answer.text());
    expect(fault).toEqual(await whole.json());
    expect(fault).toMatchObject({ error: { code: "app_failed", requestId: "mine" } });
    expect(late.refusals).toMatchObject([{ reason: "APP_FAILED", cause: refusal.cause, requestId: "mine" }]);
    expect(late.successes).toEqual([]);
  },
);

test("a fault of the work after the first message is told as internal, and its words are only logged", async () => {
  const { url, refusals } = await serveNews(async function* () {
    yield event("one", 1);
    throw new Error("a private word");
  });
  const text = await (await fetch(`${url}/v1/news/sport`, { headers: ndjson })).text();
  expect(linesOf(text)[1]).toMatchObject({ error: { code: "internal" } });
  expect(text).not.toContain("private");
  expect(refusals).toMatchObject([{ reason: "INTERNAL", cause: { message: "a private word" } }]);
});

test.each([
  ["before the first message", undefined],
  ["while the next message is awaited", event("one")],
])("a caller that disconnects %s ends the work, and is counted once", async (_, first) => {
  const { seen, work, begun } = stalled(first);
  const { url, refusals, successes } = await serveNews(work);
  const leave = new AbortController();
  const answer = fetch(`${url}/v1/news/sport`, { signal: leave.signal });
  if (first) await (await answer).body!.getReader().read();
  else await begun;
  leave.abort();
  await answer.catch(() => {});
  await expect.poll(() => seen).toEqual({ aborted: true, returned: true });
  await expect.poll(() => refusals.map(({ reason }) => reason)).toEqual(["CANCELLED"]);
  expect(successes).toEqual([]);
});

test("a caller that disconnects without reading ends the work, and is counted once", async () => {
  const seen = { produced: 0, returned: false };
  const { url, refusals, requests } = await serveNews(async function* () {
    try {
      for (;;) {
        seen.produced += 1;
        yield event("x".repeat(100_000));
      }
    } finally {
      seen.returned = true;
    }
  });
  const leave = new AbortController();
  const answer = await fetch(`${url}/v1/news/sport`, { signal: leave.signal });
  await expect.poll(() => seen.produced).toBeGreaterThan(20);
  leave.abort();
  await answer.text().catch(() => {});
  await expect.poll(() => seen.returned).toBe(true);
  await expect.poll(() => requests.running()).toBe(0);
  await expect.poll(() => refusals.map(({ reason }) => reason)).toEqual(["CANCELLED"]);
});

test("the end of a drain is the last line of a stream", async () => {
  const { seen, work } = stalled(event("one", 1));
  const { url, requests, refusals } = await serveNews(work);
  const answer = await fetch(`${url}/v1/news/sport`, { headers: ndjson });
  requests.abortAll(fail("UNAVAILABLE"));
  expect(linesOf(await answer.text())).toMatchObject([{ text: "one" }, { error: { code: "unavailable" } }]);
  expect(seen).toEqual({ aborted: true, returned: true });
  expect(refusals.map(({ reason }) => reason)).toEqual(["UNAVAILABLE"]);
});

test("a unary method beside it answers", async () => {
  const { url, successes } = await serveNews(async function* () {});
  const answer = await fetch(`${url}/v1/now/sport`);
  expect(await answer.json()).toEqual({ text: "now", number: 0 });
  expect(successes).toHaveLength(1);
});

test.each([
  ["a field that reads as a refusal", "Faulty", 'may have the key "error"'],
  ["a field that reads as the end", "Ending", 'may have the key "end"'],
  ["a field that reads as a sign of life", "Living", 'may have the key "ping"'],
  ["a stream of requests", "Sending", "whose caller sends the stream"],
  ["a stream in both directions", "Talking", "whose caller sends the stream"],
])("%s is refused at start-up", (_, name, words) => {
  expect(() => createTranscoder([newsService(name)])).toThrow(words);
});
