import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { AppSchema, type HttpBackendSchema } from "#gen/keyrun/v1/app_pb.ts";
import { readNewApp } from "#src/apps/app-fields.ts";
import { compileRequest } from "#src/apps/app-template.ts";
import { Refusal } from "#src/refusal/refusal.ts";

type Fields = Omit<MessageInitShape<typeof HttpBackendSchema>, "$typeName">;

/** The template that an app with these fields gets. */
function read(fields: Fields) {
  const value = { url: "http://a.example/", ...fields };
  const { backend } = readNewApp(
    create(AppSchema, { id: "shout", backend: { kind: { case: "http", value } } }),
    0,
  );
  return backend.kind === "http" ? backend.template : undefined;
}

function refused(fields: Fields): { param: string; message: string } {
  try {
    read(fields);
  } catch (thrown) {
    if (thrown instanceof Refusal && thrown.reason === "INVALID_ARGUMENT") {
      return { param: thrown.param?.replace("app.backend.http.", "") ?? "", message: thrown.message };
    }
    throw thrown;
  }
  throw new Error("It was taken.");
}

const none = { request: "", textAt: "", streamTextAt: "", streamEvent: "" };

test("an app without these fields has no template, and one with any has them as they were written", () => {
  expect(read({})).toBeUndefined();
  expect(read(none)).toBeUndefined();
  const request = ' {"b": 1.0, "a": [12345678901234567890, "$text"], "a": null}\n';
  expect(read({ request })).toEqual({ ...none, request });
  expect(read({ outputAt: "" })).toEqual({ ...none, outputAt: "" });
  const others = {
    textAt: "/a~1b/0/~0",
    outputAt: "/__proto__/",
    streamTextAt: "//x",
    streamEvent: "event=a=b ☀",
  };
  expect(read(others)).toEqual({ ...none, ...others });
});

describe("the request", () => {
  test.each(["{", "hello", "{'text':1}", '{"text":$text}', "[1,]", "undefined", '"\ud83d"'])(
    "%s is refused, as no JSON",
    (request) => {
      expect(refused({ request })).toEqual({
        param: "request",
        message: 'app.backend.http.request must be JSON, such as {"prompt":"$text"}.',
      });
    },
  );

  test("16 KiB are taken, and one byte more is refused", () => {
    const of = (bytes: number) => `"${"é".repeat((bytes - 2) / 2)}"`;
    expect(read({ request: of(16 * 1024) })).toBeDefined();
    expect(refused({ request: `${of(16 * 1024)} ` })).toEqual({
      param: "request",
      message: "app.backend.http.request must be at most 16 KiB of JSON.",
    });
  });

  test.each([
    ...["$wrod", "$", "$Text", "$text ", "$textual", "$text/a", "\\u0024wrod", "$input.a", "$inputs/a"],
    ...["$input~1a", "$input/a~", "$input/~2", `$input/${"a".repeat(256)}`, "$runId/0", "$input/\\ud83d"],
  ])('a string "%s" is refused, with the placeholders that there are', (text) => {
    expect(refused({ request: `{"a":[{"b":"${text}"}]}` })).toEqual({
      param: "request",
      message:
        "app.backend.http.request has a string that begins with $ and is none of $text, $input, $runId, $teamId, $keyId, $appId, $stream, and no part of the input like $input/customer/id. Begin it with $$ for a dollar.",
    });
  });

  test("the text and parts of the input stand in it 16 times at most, so that a run has a bound", () => {
    const inputs = (count: number) =>
      JSON.stringify(Array.from({ length: count }, (_, at) => ["$text", "$input", `$input/${at}`][at % 3]));
    expect(read({ request: `[${inputs(16)},${JSON.stringify(Array(99).fill("$appId"))}]` })).toBeDefined();
    expect(refused({ request: inputs(17) })).toEqual({
      param: "request",
      message: "app.backend.http.request may have $text and parts of $input at most 16 times.",
    });
  });
});

test.each(["text", "a/b", "#/text", " /text", "/a~", "/a~2b", `/${"a".repeat(256)}`, "/\ud83d"])(
  "a pointer %s is refused by the name of its field",
  (pointer) => {
    for (const [field, fields] of [
      ["text_at", { textAt: pointer }],
      ["output_at", { outputAt: pointer }],
      ["stream_text_at", { streamTextAt: pointer }],
    ] as const) {
      const { param, message } = refused(fields);
      expect(param).toBe(field);
      expect(message).toContain("begins with a slash, such as /choices/0/message/content");
    }
  },
);

test.each(["event", "=token", "event=", `e=${"a".repeat(255)}`, "e=\ud83d"])(
  "an event %s is refused",
  (streamEvent) => {
    expect(refused({ streamEvent })).toEqual({
      param: "stream_event",
      message:
        "app.backend.http.stream_event must be member=value, such as event=token, of at most 256 characters.",
    });
  },
);

describe("what is sent", () => {
  const values = {
    text: 'say "hi" \\ $runId\n\u2028☀',
    input: JSON.parse('{"a/b":{"~":["$text",{"":1.5}]},"":null,"__proto__":{"constructor":"own"}}'),
    runId: "run_1",
    teamId: "demo",
    keyId: "k",
    appId: "shout",
    stream: true,
  };
  const sent = (request: string) => compileRequest(request)(values);

  test("each placeholder is a whole string, and stands for its value", () => {
    expect(
      JSON.parse(sent('["$text","$runId","$teamId","$keyId","$appId","$stream","\\u0024text"]')),
    ).toEqual([values.text, "run_1", "demo", "k", "shout", true, values.text]);
    expect(sent('"$stream"')).toBe("true");
    expect(sent('"no placeholder"')).toBe('"no placeholder"');
  });

  test.each([
    ["$input", values.input],
    ["$input/a~1b/~0/0", "$text"],
    ["$input/a~1b/~0/1/", 1.5],
    ["$input/", null],
    ["$input/__proto__/constructor", "own"],
    ["\\u0024input/a~1b", { "~": ["$text", { "": 1.5 }] }],
  ])("%s stands for this part of the input", (placeholder, value) => {
    expect(JSON.parse(sent(`[{"at": "${placeholder}"}]`))).toEqual([{ at: value }]);
  });

  test("nothing is put into other strings or names, and two dollars are one", () => {
    const request = '{"$text":"a $text","$wrod" : "$$text","x":{"":"$$"},"\\"$text":"\\\\","e":"$$$5 \\""}';
    expect(JSON.parse(sent(request))).toEqual({
      $text: "a $text",
      $wrod: "$text",
      x: { "": "$" },
      '"$text': "\\",
      e: '$$5 "',
    });
  });

  test("the rest is sent as the operator wrote it", () => {
    expect(sent('{ "n": [1.0, 12345678901234567890, 1e400, -0], "t":"$teamId",\n"n":"\\u00e9" }')).toBe(
      '{ "n": [1.0, 12345678901234567890, 1e400, -0], "t":"demo",\n"n":"\\u00e9" }',
    );
  });
});
