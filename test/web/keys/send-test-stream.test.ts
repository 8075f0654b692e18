import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { bounds } from "../../../web/bounds.ts";
import { readEvents } from "../../../web/keys/create/read-events.ts";
import { sendTestStream, type TestStream } from "../../../web/keys/create/send-test-stream.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { soon } from "../../harness/soon.ts";

const testRun = { appId: "echo", value: "svc_1" };

describe("a test stream", () => {
  test("of a real Keyrun shows the text, the limit and the end", async () => {
    const keyrun = await startKeyrun();
    onTestFinished(() => keyrun.close());
    const { value } = await keyrun.keys.createKey({ teamId: "demo" });
    const result = await sent(keyrun.publicUrl, { value });
    expect(result).toMatchObject({ status: 200, state: "ended", problem: null, cut: false });
    expect((result as TestStream).pieces.join("")).toBe("hello, word by word");
    expect(result?.rateLimit).toMatch(/^"team";r=\d+;t=\d+$/);
    const refused = await sent(keyrun.publicUrl, { value: `${value.slice(0, -1)}!` });
    expect(refused).toMatchObject({ status: 401, problem: expect.stringContaining("key") });
  });

  test("shows each piece before the next one is sent", async () => {
    const seen: TestStream[] = [];
    const url = await serve(async (_request, response) => {
      head(response);
      for (const [at, word] of ["one", " two", " ☀"].entries()) {
        response.write(message({ delta: { text: word } }));
        await soon(() => seen.at(-1)?.pieces.length).toBe(at + 1);
      }
      response.end("event: end\ndata: {}\n\n");
    });
    const result = await sent(url, { onChange: (stream) => seen.push(stream) });
    expect(result).toMatchObject({ state: "ended", pieces: ["one", " two", " ☀"] });
    expect(seen[0]).toMatchObject({ state: "open", pieces: [] });
  });

  test("that fails half-way keeps its text, and says why in Keyrun's words", async () => {
    const url = await serve((_request, response) => {
      head(response).write(message({ delta: { text: "half" } }));
      response.end('event: error\ndata: {"error":{"message":"The app has failed."}}\n\n');
    });
    const result = await sent(url);
    expect(result).toMatchObject({ state: "failed", problem: "The app has failed.", pieces: ["half"] });
  });

  test.each([
    ["its connection is cut", (response: ServerResponse) => response.destroy()],
    ["its body ends", (response: ServerResponse) => response.end()],
    ["what comes is no JSON", (response: ServerResponse) => response.end("data: <html>\n\n")],
  ])("is told as broken when %s before the end", async (_when, breakOff) => {
    const url = await serve(async (_request, response) => {
      await new Promise((written) => head(response).write(message({ delta: { text: "half" } }), written));
      await arrived;
      breakOff(response);
    });
    let arrive = () => {};
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const result = await sent(url, { onChange: ({ pieces }) => pieces.length > 0 && arrive() });
    expect(result).toMatchObject({ state: "broken", pieces: ["half"] });
  });

  test("that is silent for 40 s after its last piece is told as broken, and its request is given up", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    let given: AbortSignal | null | undefined;
    const fetch: typeof globalThis.fetch = async (_path, init) => {
      given = init?.signal;
      given?.addEventListener("abort", () => void writer.abort().catch(() => {}));
      return new Response(readable);
    };
    let seen: TestStream | undefined;
    const onChange = (stream: TestStream) => {
      seen = stream;
    };
    const result = sendTestStream(fetch, testRun, { signal: new AbortController().signal, onChange });
    await soon(() => seen?.state).toBe("open");
    vi.advanceTimersByTime(39_999);
    await writer.write(new TextEncoder().encode(message({ delta: { text: "half" } })));
    await soon(() => seen?.pieces).toEqual(["half"]);
    vi.advanceTimersByTime(39_999);
    expect([seen?.state, given?.aborted]).toEqual(["open", false]);
    vi.advanceTimersByTime(1);
    expect(given?.aborted).toBe(true);
    expect(await result).toMatchObject({ state: "broken", pieces: ["half"] });
  });

  test("that is stopped keeps its text, and its request is given up", async () => {
    let closed = false;
    const url = await serve((_request, response) => {
      head(response).write(message({ delta: { text: "half" } }));
      response.on("close", () => {
        closed = true;
      });
    });
    const stop = new AbortController();
    const onChange = ({ pieces }: TestStream) => pieces.length > 0 && stop.abort();
    const result = await sent(url, { signal: stop.signal, onChange });
    expect(result).toMatchObject({ state: "stopped", pieces: ["half"] });
    await soon(() => closed).toBe(true);
  });

  test("that is stopped before its answer, or has none, is null", async () => {
    const stop = new AbortController();
    const url = await serve(() => stop.abort());
    expect(await sent(url, { signal: stop.signal })).toBeNull();
    expect(await sent("http://127.0.0.1:9")).toBeNull();
  });

  test("keeps no more text than is shown, and goes on to its end", async () => {
    const long = "x".repeat(700);
    const url = await serve((_request, response) => {
      head(response);
      for (let times = 0; times < 100; times++) response.write(message({ delta: { text: long } }));
      response.end("event: end\ndata: {}\n\n");
    });
    const result = await sent(url);
    expect(result).toMatchObject({ state: "ended", cut: true });
    expect((result as TestStream).pieces.join("").length).toBe(bounds.shownAnswerCharactersMax);
  });

  test("with an event without an end is given up at the bound", async () => {
    const url = await serve((_request, response) => {
      const more = () => {
        while (response.write("x".repeat(65_536)));
      };
      head(response).write("data: ");
      response.on("drain", more);
      more();
    });
    expect(await sent(url)).toMatchObject({ state: "broken", pieces: [] });
  });
});

test("events are read the same, however their bytes are cut", async () => {
  const events = [
    { name: "", data: '{"started":{}}' },
    { name: "", data: '{"delta":{"text":"☀😀"}}' },
    { name: "", data: "" },
    { name: "end", data: "{}" },
  ];
  const written = `data: ${events[0]!.data}\n\ndata: ${events[1]!.data}\n\n: ping\n\nevent: end\ndata: {}\n\n`;
  const bytes = new TextEncoder().encode(written);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (cuts) => {
      const ends = [...cuts.sort((a, b) => a - b), bytes.length];
      const parts = ends.map((end, at) => bytes.slice(ends[at - 1] ?? 0, end));
      const read: unknown[] = [];
      for await (const event of readEvents(ReadableStream.from(parts))) read.push(event);
      expect(read).toEqual(events);
    }),
  );
});

function message(json: object): string {
  return `data: ${JSON.stringify(json)}\n\n`;
}

function head(response: ServerResponse): ServerResponse {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.write(message({ started: { runId: "run_1", appId: "echo" } }));
  return response;
}

async function serve(handler: RequestListener): Promise<string> {
  const server = createServer(async (request, response) => {
    await text(request);
    await handler(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Sends a test stream from a page at this address. */
function sent(
  url: string,
  options: {
    value?: string;
    signal?: AbortSignal;
    onChange?: (stream: TestStream) => unknown;
  } = {},
) {
  const { value = testRun.value, signal = new AbortController().signal, onChange = () => {} } = options;
  const atUrl: typeof fetch = (path, init) => fetch(`${url}${path}`, init);
  return sendTestStream(atUrl, { ...testRun, value }, { signal, onChange });
}
