import { describe, expect, test } from "vitest";
import type { BackendRecord, TemplateRecord } from "#src/apps/app-store.ts";
import { refusalFrom } from "#src/refusal/refusal.ts";
import type { StreamPiece } from "#src/run/runner.ts";
import {
  appOn,
  bodyOf,
  causeOf,
  openAppRunner,
  refusalOf,
  runOf,
  serveHttp,
} from "../harness/app-backends.ts";
import { readText } from "../harness/streamed-apps.ts";

const none = { request: "", textAt: "", streamTextAt: "", streamEvent: "" };

function withTemplate(backend: Extract<BackendRecord, { kind: "http" }>, template: Partial<TemplateRecord>) {
  return appOn({ ...backend, template: { ...none, ...template } });
}

/** An app that answers each run with this body. */
const answering = (contentType: string, body: string) =>
  serveHttp((_, response) => response.setHeader("content-type", contentType).end(body));

test("an app with a template is sent it, and one without is sent Keyrun's own JSON", async () => {
  const sent: unknown[] = [];
  await using server = await serveHttp(async (request, response) => {
    sent.push(await bodyOf(request));
    response.end('{"text":""}');
  });
  await using runner = openAppRunner();
  const request = '{"say":"$text","by":["$runId","$teamId","$keyId","$appId"],"stream":"$stream"}';
  const app = withTemplate(server.backend, { request });
  await runner.run(runOf(app, { text: 'a "b"' }));
  await readText(runner.stream(runOf(app, { text: "" })));
  await runner.run(runOf(withTemplate(server.backend, { textAt: "/text" })));
  expect(sent).toEqual([
    '{"say":"a \\"b\\"","by":["run_1","demo","k","shout"],"stream":false}',
    '{"say":"","by":["run_1","demo","k","shout"],"stream":true}',
    '{"runId":"run_1","teamId":"demo","appId":"shout","keyId":"k","text":"hello"}',
  ]);
});

describe("a whole answer", () => {
  test.each([
    ["/a/0/b", '{"a":[{"b":"found"}],"text":"other"}'],
    ["/a~1b/~0", '{"a/b":{"~":"found"}}'],
    ["//", '{"":{"":"found"}}'],
    ["/__proto__/constructor", '{"__proto__":{"constructor":"found"}}'],
    ["", '{"text":"found"}'],
    ["/0", '["found"]'],
  ])("has its text at %s", async (textAt, body) => {
    await using server = await answering("application/json", body);
    await using runner = openAppRunner();
    const app = withTemplate(server.backend, { textAt, request: "{}" });
    expect(await runner.run(runOf(app))).toBe("found");
    expect(await readText(runner.stream(runOf(app)))).toEqual({ text: "found" });
  });

  test.each([
    ["/a/0/b", '{"a":[]}', "there is no /a/0"],
    ["/a/0/b", '{"a":[{"c":"private"}]}', "there is no /a/0/b"],
    ["/a", '{"a":null}', "it is null"],
    ["/a", '{"a":["private"]}', "it is of type object"],
    ["/a", '{"a":5}', "it is of type number"],
    ["/a/length", '{"a":["private"]}', "there is no /a/length"],
    ["/a/00", '{"a":["private"]}', "there is no /a/00"],
    ["/a/-", '{"a":["private"]}', "there is no /a/-"],
    ["/constructor/name", "{}", "there is no /constructor"],
    ["/a~1b/~0c", '{"a/b":"private"}', "there is no /a~1b/~0c"],
    ["/text", '"private"', "there is no /text"],
  ])("without a string at %s, %s, is APP_FAILED, and the log says what missed", async (textAt, body, why) => {
    await using server = await answering("application/json", body);
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(withTemplate(server.backend, { textAt }))));
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(causeOf(refusal)).toBe(`The answer has no string at ${textAt} (text_at): ${why}.`);
    expect(refusal.message).not.toContain(textAt);
  });

  test("that is no JSON is APP_FAILED, with what was wanted in the log", async () => {
    await using server = await answering("text/html", "<p>private</p>");
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(withTemplate(server.backend, { textAt: "/a" }))));
    expect(causeOf(refusal)).toBe(
      "The answer is not JSON: it came as text/html. It must be JSON with a string at /a.",
    );
  });
});

/** The outputs of a run and a stream of an app with this template, and why they failed. */
async function outputs(type: string, body: string, template: Partial<TemplateRecord>) {
  await using server = await answering(type, body);
  await using runner = openAppRunner();
  const app = withTemplate(server.backend, template);
  const pieces: StreamPiece[] = [];
  const read = async () => {
    for await (const piece of runner.outputs.stream(runOf(app))) if (piece !== "") pieces.push(piece);
  };
  const failed = (thrown: unknown) => causeOf(refusalFrom(thrown));
  return { run: await runner.outputs.run(runOf(app)).catch(failed), end: await read().catch(failed), pieces };
}

describe("output_at", () => {
  const whole = '{"a":[{"b":{"x":[1.5,null]}}],"t":"hi","id":12345678901234567890}';
  test.each([
    ["/a/0/b", "/t", { text: "hi", output: { x: [1.5, null] } }],
    ["/a/0/b/x/1", "/t", { text: "hi", output: null }],
    ["/a/0", "", { output: { b: { x: [1.5, null] } } }],
  ])("%s is the JSON of a whole answer, with text_at %j", async (outputAt, textAt, given) => {
    const { run, end, pieces } = await outputs("application/json", whole, { outputAt, textAt });
    expect({ run, end }).toEqual({ run: given, end: undefined });
    expect(pieces).toEqual([...("text" in given ? [given.text] : []), { output: given.output }]);
  });

  test("that is empty is the whole answer, and then no text is read", async () => {
    const { run } = await outputs("application/json", '{"text":"a","b":[]}', { outputAt: "" });
    expect(run).toEqual({ output: { text: "a", b: [] } });
    expect((await outputs("application/json", "[]", { outputAt: "" })).run).toEqual({ output: [] });
  });

  test.each([
    ["/a/1", "/t", "The answer has no value at /a/1 (output_at): there is no /a/1."],
    ["/a", "/x", "The answer has no string at /x (text_at): there is no /x."],
    ["/id", "", "The app's `output` has a number that a double can't hold. Send it as a string."],
    ["", "", "The app's `output` has a number that a double can't hold. Send it as a string."],
  ])(
    "%j is APP_FAILED where it, or text_at %j, misses, and the log says why",
    async (outputAt, textAt, why) => {
      expect(await outputs("application/json", whole, { outputAt, textAt })).toMatchObject({
        run: why,
        end: why,
      });
    },
  );

  const types = ["text/event-stream", "application/x-ndjson"] as const;
  describe.each(types)("of a stream as %s", (type) => {
    const body = (...messages: string[]) =>
      type === types[0] ? sse(...messages) : `${messages.join("\n")}\n`;
    const template = { outputAt: "/o", streamTextAt: "/d", streamEvent: "e=token" };

    test("is the value in the last message that has one, whatever its event, and comes last", async () => {
      for (const done of [[], ["[DONE]"]]) {
        const messages = [
          '{"e":"token","d":"a","o":1}',
          '{"e":"end","o":[2]}',
          '{"e":"token","d":"b"}',
          ...done,
        ];
        const { run, end, pieces } = await outputs(type, body(...messages), template);
        expect({ run, end }).toEqual({ run: { text: "ab", output: [2] }, end: undefined });
        expect(pieces.filter((piece) => typeof piece === "string").join("")).toBe("ab");
        expect(pieces.at(-1)).toEqual({ output: [2] });
      }
    });

    test("may be without text, and text without it", async () => {
      const only = await outputs(type, body('{"x":1}', '{"o":null}'), { outputAt: "/o" });
      expect(only).toMatchObject({ run: { output: null }, pieces: [{ output: null }] });
      expect((await outputs(type, body('{"e":"token","d":"a"}'), template)).run).toEqual({ text: "a" });
    });

    test("is APP_FAILED where neither is found, and where its value may not be passed on", async () => {
      const text = "a string at /d (stream_text_at) and e=token (stream_event), or ";
      const value = "a value at /o (output_at).";
      const neither = await outputs(type, body("{}"), template);
      expect(neither.run).toBe(`No message of the stream has ${text}${value}`);
      expect(neither.end).toBe(neither.run);
      const alone = await outputs(type, body("{}"), { outputAt: "/o" });
      expect(alone.run).toBe(`No message of the stream has ${value}`);
      const { end } = await outputs(type, body('{"o":12345678901234567890}'), template);
      expect(end).toMatch(/^The app's `output` has a number/);
    });
  });
});

const sse = (...messages: string[]) => messages.map((message) => `data: ${message}\n\n`).join("");

/** The text of a stream, and why it broke off. */
async function streamed(type: string, body: string, template: Partial<TemplateRecord>) {
  await using server = await answering(type, body);
  await using runner = openAppRunner();
  const { text, refusal } = await readText(runner.stream(runOf(withTemplate(server.backend, template))));
  if (refusal === undefined) return { text };
  const { reason } = refusalFrom(refusal);
  return { text, reason, cause: causeOf(refusalFrom(refusal)) };
}

describe("a stream", () => {
  const template = { textAt: "/whole", streamTextAt: "/d/text" };

  test.each([
    ["text/event-stream", sse('{"d":{"text":"a "}}', '{"d":{"text":"b"}}')],
    ["application/x-ndjson", '{"d":{"text":"a "}}\n\n{"d":{"text":"b"}}'],
    ["application/json", '{"whole":"a b"}'],
  ])("as %s has its texts where the template says", async (type, body) => {
    expect(await streamed(type, body, template)).toEqual({ text: "a b" });
  });

  test("has them at text_at where nothing else is said, and in a run they come together", async () => {
    const events = sse('{"d":{"text":"a "}}', '{"d":{"text":"b"}}');
    const textAt = { textAt: "/d/text" };
    expect(await streamed("text/event-stream", events, textAt)).toEqual({ text: "a b" });
    await using server = await answering("text/event-stream", events);
    await using runner = openAppRunner();
    expect(await runner.run(runOf(withTemplate(server.backend, textAt)))).toBe("a b");
  });

  test("may have messages that say nothing", async () => {
    const messages = [
      '{"d":{"text":"a"}}',
      "{}",
      '{"d":{"text":null}}',
      '{"d":[]}',
      "5",
      "null",
      '{"error":null}',
    ];
    expect(await streamed("text/event-stream", sse(...messages), template)).toEqual({ text: "a" });
  });

  test("has texts in the messages of its event alone", async () => {
    const events = sse(
      '{"e":"start","d":{"text":"no"}}',
      '{"e":"token","d":{"text":"a=b"}}',
      '{"d":{"text":"no"}}',
      '{"e":["token"],"d":{"text":"no"}}',
      '{"e":"token"}',
    );
    const streamEvent = "e=token";
    expect(await streamed("text/event-stream", events, { ...template, streamEvent })).toEqual({
      text: "a=b",
    });
  });

  test("ends well with [DONE], though the app says more or never ends its answer", async () => {
    const done = sse('{"d":{"text":"a"}}', "[DONE]");
    for (const body of [done, done + sse('{"d":{"text":"b"}}', "no JSON", '{"error":"late"}')]) {
      expect(await streamed("text/event-stream", body, template)).toEqual({ text: "a" });
    }
    await using server = await serveHttp((_, response) => {
      response.setHeader("content-type", "text/event-stream").write(done);
    });
    await using runner = openAppRunner();
    const app = withTemplate(server.backend, template);
    expect(await readText(runner.stream(runOf(app)))).toEqual({ text: "a" });
    expect(await runner.run(runOf(app))).toBe("a");
  });

  const nothing = "No message of the stream has a string at /d/text (stream_text_at)";
  test.each([
    ["in which nothing is found", sse('{"text":"private"}'), `${nothing}.`],
    ["with [DONE] alone", sse("[DONE]"), `${nothing}.`],
    ["without a message", "", `${nothing}.`],
    [
      "that tells an error",
      sse('{"d":{"text":"a"}}', '{"error":{"message":"x"}}'),
      "The app sent an error in its stream.",
    ],
    [
      "with an event that is an error",
      `${sse('{"d":{"text":"a"}}')}event: error\ndata: {}\n\n`,
      "The app sent an error in its stream.",
    ],
    ["with what is no JSON", sse('{"d":{"text":"a"}}', "hello"), "A message is not JSON."],
    ["that ends within an event", 'data: {"d":{"text":"a"}}\n', "The answer ended within an event."],
  ])("%s is APP_FAILED, with what missed in the log", async (_, body, cause) => {
    const text = body.includes('"d"') && body.endsWith("\n\n") ? "a" : "";
    expect(await streamed("text/event-stream", body, template)).toEqual({
      text,
      reason: "APP_FAILED",
      cause,
    });
  });

  test("whose event's member says error is APP_FAILED, and so is one without the event", async () => {
    const of = (...messages: string[]) =>
      streamed("text/event-stream", sse(...messages), { ...template, streamEvent: "e=token" });
    expect(await of('{"e":"token","d":{"text":"a"}}', '{"e":"error","message":"private"}')).toEqual({
      text: "a",
      reason: "APP_FAILED",
      cause: "The app sent an error in its stream.",
    });
    expect(await of('{"e":"other","d":{"text":"private"}}')).toMatchObject({
      text: "",
      cause: `${nothing} and e=token (stream_event).`,
    });
  });

  test("as lines of JSON with nothing found, or with [DONE] half-way in a line, is APP_FAILED", async () => {
    expect(await streamed("application/x-ndjson", "{}\n", template)).toMatchObject({ cause: `${nothing}.` });
    expect(await streamed("application/x-ndjson", "[DONE\n", template)).toMatchObject({
      cause: "A message is not JSON.",
    });
  });
});
