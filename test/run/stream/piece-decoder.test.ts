import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Refusal } from "#src/refusal/refusal.ts";
import type { StreamPiece } from "#src/run/runner.ts";
import {
  EventStreamDecoder,
  JsonLinesDecoder,
  type PieceDecoder,
  WholeJsonDecoder,
} from "#src/run/stream/piece-decoder.ts";
import { causeOf } from "../../harness/app-backends.ts";

const bytesMax = 4_096;
const decoders = {
  "server-sent events": () => new EventStreamDecoder(bytesMax),
  "JSON lines": () => new JsonLinesDecoder(bytesMax),
  "whole JSON": () => new WholeJsonDecoder(bytesMax),
};
const events = decoders["server-sent events"];
const lines = decoders["JSON lines"];

/** What a decoder makes of a body: the texts that are not empty, and how it ends. */
function read(decoder: PieceDecoder, chunks: Iterable<Uint8Array>) {
  const texts: StreamPiece[] = [];
  let signs = 0;
  const take = (read: Iterable<StreamPiece>) => {
    for (const text of read) {
      if (text === "") signs += 1;
      else texts.push(text);
    }
  };
  try {
    for (const chunk of chunks) {
      take(decoder.decode(Buffer.from(chunk)));
    }
    take(decoder.end());
    return { texts, signs };
  } catch (thrown) {
    if (thrown instanceof Refusal && thrown.reason === "APP_FAILED") {
      return { texts, signs, failed: causeOf(thrown) };
    }
    throw thrown;
  }
}

const readText = (decoder: PieceDecoder, body: string) => read(decoder, [Buffer.from(body)]);

/** The bytes cut at these places, empty chunks included. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [
    ...places.map((place) => place % (bytes.byteLength + 1)).sort((a, b) => a - b),
    bytes.byteLength,
  ];
  return at.map((end, index) => bytes.subarray(at[index - 1] ?? 0, end));
}

const eachByte = (bytes: Buffer) => Array.from(bytes, (_, index) => bytes.subarray(index, index + 1));

const text = fc.string({ unit: "binary", minLength: 1, maxLength: 20 });
const places = fc.array(fc.nat(), { maxLength: 12 });
const lineEnd = fc.constantFrom("\n", "\r\n", "\r");

/** An event, with all that the standard lets a server write around its text. */
const anEvent = fc
  .record({
    text,
    comment: fc.option(fc.constantFrom(":", ": ping", ":ping: ☀"), { nil: undefined }),
    fields: fc.subarray(["id: 7", "retry: 10", "event: token", "event", "foo: data: x", "data2: x"]),
    isPretty: fc.boolean(),
    space: fc.constantFrom("", " "),
    end: lineEnd,
  })
  .map(({ text, comment, fields, isPretty, space, end }) => {
    const data = JSON.stringify({ text }, null, isPretty ? 1 : 0).split("\n");
    const all = [...(comment ? [comment] : []), ...fields, ...data.map((line) => `data:${space}${line}`), ""];
    return { text, bytes: all.map((line) => line + end).join("") };
  });

describe("any split of the bytes gives the same texts, in their order:", () => {
  test("of events, whatever their line ends", () => {
    fc.assert(
      fc.property(fc.array(anEvent, { maxLength: 5 }), places, fc.boolean(), (all, at, hasMark) => {
        const body = Buffer.from(`${hasMark ? "\ufeff" : ""}${all.map(({ bytes }) => bytes).join("")}`);
        const whole = read(events(), [body]);
        expect(whole).toMatchObject({ texts: all.map((event) => event.text) });
        expect(whole).not.toHaveProperty("failed");
        expect(read(events(), cut(body, at))).toEqual(whole);
        expect(read(events(), eachByte(body))).toEqual(whole);
      }),
    );
  });

  test("of lines, with empty lines between them", () => {
    const line = fc.record({
      text,
      before: fc.constantFrom("", "\n", " \r\n"),
      end: fc.constantFrom("\n", "\r\n"),
    });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 5 }), places, fc.boolean(), (all, at, isCut) => {
        const written = all
          .map(({ text, before, end }) => `${before}${JSON.stringify({ text })}${end}`)
          .join("");
        const body = Buffer.from(isCut ? written.trimEnd() : written);
        const whole = read(lines(), [body]);
        expect(whole).toMatchObject({ texts: all.map((each) => each.text) });
        expect(read(lines(), cut(body, at))).toEqual(whole);
        expect(read(lines(), eachByte(body))).toEqual(whole);
      }),
    );
  });

  test.each(Object.entries(decoders))("of any bytes as %s, also the same failure", (_, decoder) => {
    const parts = fc.constantFrom(
      "data:",
      "event: error",
      '{"text":"é☀"}',
      "\r",
      "\n",
      "\r\n",
      ":",
      "\ufeff",
      "{",
      " ",
    );
    const part = fc.oneof(
      { weight: 4, arbitrary: parts.map((each) => Buffer.from(each)) },
      fc.uint8Array({ maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), places, (written, at) => {
        const body = Buffer.concat(written);
        const whole = read(decoder(), [body]);
        expect(read(decoder(), cut(body, at))).toEqual(whole);
        expect(read(decoder(), eachByte(body))).toEqual(whole);
      }),
    );
  });
});

describe("server-sent events", () => {
  test("lines of data are one message, and other fields and types mean nothing", () => {
    const body = 'event: token\nid: 1\nretry: 5\ndata: {"text":\ndata:"a"}\n\ndata:{"text":"b"}\n\n';
    expect(readText(events(), body)).toMatchObject({ texts: ["a", "b"] });
  });

  test("a comment and an empty line are signs of life", () => {
    expect(readText(events(), ": ping\n\n")).toEqual({ texts: [], signs: 2 });
  });

  test.each([
    ["text that is no JSON", "data: hello\n\n"],
    ["the end of another form", "data: [DONE]\n\n"],
    ["empty data", "data\n\n"],
    ["a text that is no string", 'data: {"text":1}\n\n'],
    ["an object without text", "data: {}\n\n"],
    ["null", "data: null\n\n"],
    ["a list", 'data: ["text"]\n\n'],
    ["an output that is no JSON", "event: output\ndata: hello\n\n"],
    ["an output past 2^53", "event: output\ndata: [9007199254740993]\n\n"],
    ["an error", 'event: error\ndata: {"text":"no output"}\n\n'],
    ["an error without data", "event: error\n\n"],
    ["an error in its data", 'data: {"text":"no output","error":{}}\n\n'],
    ["the end within an event", 'data: {"text":"b"}\n'],
    ["the end within a line", "dat"],
    ["bytes that are not UTF-8", Buffer.from([0x3a, 0xff, 0x0a])],
    ["half of a code point", Buffer.from([0x3a, 0xe2, 0x98, 0x0a, 0x80])],
    ["a second byte order mark", '\ufeffdata: {"text":"b"}\n\n'],
  ])("%s fails after what came before", (what, rest) => {
    const before = Buffer.from('\ufeffdata: {"text":"a"}\n\n');
    const seen = read(events(), [before, Buffer.from(rest)]);
    // A mark within the stream is part of a field's name, and a field of that name means nothing.
    if (what === "a second byte order mark") expect(seen).toEqual({ texts: ["a"], signs: 1 });
    else expect(seen).toMatchObject({ texts: ["a"], failed: expect.any(String) });
  });

  test("an event of the type output has bare JSON as its data", () => {
    const body =
      'data: {"text":"a"}\n\ndata: {"text":"b","output":1}\n\nevent: output\ndata: {"text":\ndata: 1}\n\n';
    expect(readText(events(), body).texts).toEqual(["a", "b", { output: 1 }, { output: { text: 1 } }]);
    expect(readText(events(), "event: output\n\nevent: output\ndata: null\n\n")).toMatchObject({
      texts: [{ output: null }],
    });
  });

  test("the type of an event is its own alone", () => {
    const body = 'event: error\nevent: token\ndata: {"text":"a"}\n\ndata: {"text":"b","error":null}\n\n: cut';
    expect(readText(events(), body)).toMatchObject({ texts: ["a", "b"] });
  });
});

describe("the JSON of a message", () => {
  const jsonOf = (output: string) => readText(decoders["whole JSON"](), `{"text":null,"output":${output}}`);

  test.each([
    "null",
    "[]",
    '"a"',
    '{"__proto__":1,"constructor":{"":2},"a.b":[1e300,9007199254740992,0.1,123456789012345678e1]}',
    '["\\"9007199254740993", 0.12345678901234567890123, 1.5e-400]',
    "[".repeat(32) + "]".repeat(32),
  ])("%s is passed on as it is", (output) => {
    expect(JSON.stringify(jsonOf(output).texts)).toBe(JSON.stringify([{ output: JSON.parse(output) }]));
    expect(readText(lines(), `{"output":${output}}`).texts).toEqual(jsonOf(output).texts);
    expect(readText(events(), `event: output\ndata: ${output}\n\n`).texts).toEqual(jsonOf(output).texts);
  });

  const notExact = "has a number that a double can't hold. Send it as a string.";
  test.each([
    ["[9007199254740992, -9007199254740993]", notExact],
    ["1e999", notExact],
    [`[${"9".repeat(400)}]`, notExact],
    ['"\\ud800"', "is not Unicode: it holds a lone surrogate."],
    ['{"\\udc00":1}', "is not Unicode: it holds a lone surrogate."],
    ["[".repeat(33) + "]".repeat(33), "is more than 32 deep. Nest less."],
  ])("%s fails", (output, why) => {
    expect(jsonOf(output)).toMatchObject({ texts: [], failed: `The app's \`output\` ${why}` });
  });

  test("a number that is outside of the output may be any", () => {
    const body = '{"id":9007199254740993,"text":"a","output":9007199254740992}';
    expect(readText(lines(), body).texts).toEqual(["a", { output: 9007199254740992 }]);
  });
});

describe("JSON lines", () => {
  test("the last line needs no end, and an empty line is a sign of life", () => {
    expect(readText(lines(), '\n{"text":"a"}\r\n \r\n{"text":"b"}')).toEqual({ texts: ["a", "b"], signs: 2 });
  });

  test.each([
    ["text that is no JSON", "hello\n"],
    ["an object without text", '{"delta":"a"}\n'],
    ["an error", '{"error":{"message":"no"},"text":"no output"}\n'],
    ["two messages on a line", '{"text":"b"}{"text":"c"}\n'],
    ["the end within a message", '{"text":"b"'],
    ["a byte order mark", '\ufeff{"text":"b"}\n'],
    ["bytes that are not UTF-8", Buffer.from('{"text":"\xff"}\n', "latin1")],
  ])("%s fails after what came before", (_, rest) => {
    const seen = read(lines(), [Buffer.from('{"text":"a"}\n'), Buffer.from(rest)]);
    expect(seen).toMatchObject({ texts: ["a"], failed: expect.any(String) });
  });
});

describe("whole JSON", () => {
  test("is one message, as an app answers a run", () => {
    const body = '{"text":"a","error":"of its own"}';
    expect(readText(decoders["whole JSON"](), body)).toEqual({ texts: ["a"], signs: 0 });
  });

  test.each(["", "hello", '{"text":"a"}{"text":"b"}'])("%j fails: it is not JSON", (body) => {
    const failed = "A message is not JSON.";
    expect(readText(decoders["whole JSON"](), body)).toMatchObject({ texts: [], failed });
  });

  test.each(["{}", "null", '["text"]', '{"text":1}', '{"text":null}', '{"text":1,"output":1}'])(
    "%j fails: it has no output",
    (body) => {
      const failed = "A message is not a JSON object with a string `text` or an `output`.";
      expect(readText(decoders["whole JSON"](), body)).toMatchObject({ texts: [], failed });
    },
  );
});

describe("the bound of a message", () => {
  const ofLength = (length: number) => `{"text":"${"x".repeat(length - '{"text":""}'.length)}"}`;

  test.each([
    ["JSON lines", (length: number) => `${ofLength(length)}\n`],
    ["whole JSON", ofLength],
    // The name of the field is part of the line.
    ["server-sent events", (length: number) => `data:${ofLength(length - 5)}\n\n`],
  ] as const)("is exact for %s, in one chunk or byte by byte", (kind, bodyOf) => {
    const whole = Buffer.from(bodyOf(bytesMax));
    const more = Buffer.from(bodyOf(bytesMax + 1));
    for (const split of [(bytes: Buffer) => [bytes], eachByte]) {
      expect(read(decoders[kind](), split(whole))).toMatchObject({ texts: [expect.any(String)] });
      expect(read(decoders[kind](), split(more))).toMatchObject({
        texts: [],
        failed: expect.stringContaining(`more than ${bytesMax} bytes`),
      });
    }
  });

  test("holds for all lines of an event", () => {
    const body = `${"data\n".repeat(bytesMax)}data\n`;
    expect(readText(events(), `${body}data\n`)).toMatchObject({
      failed: expect.stringContaining("An event"),
    });
  });

  test("the time for a body grows as its length does, however small its chunks and lines are", () => {
    const timeOf = (kind: keyof typeof decoders, body: Buffer, chunkBytes: number) => {
      const decoder = {
        "server-sent events": EventStreamDecoder,
        "JSON lines": JsonLinesDecoder,
        "whole JSON": WholeJsonDecoder,
      }[kind];
      const chunks = Array.from({ length: Math.ceil(body.byteLength / chunkBytes) }, (_, index) =>
        body.subarray(index * chunkBytes, (index + 1) * chunkBytes),
      );
      const { user } = process.cpuUsage();
      read(new decoder(2 ** 24), chunks);
      return process.cpuUsage().user - user;
    };
    const longLine = (bytes: number) => Buffer.from(`data: ${"x".repeat(bytes)}`);
    const manyLines = (bytes: number) => Buffer.from(":\n".repeat(bytes / 2));
    for (const kind of ["server-sent events", "JSON lines"] as const) {
      for (const [bodyOf, chunkBytes] of [
        [longLine, 1],
        [longLine, 2 ** 22],
        [manyLines, 2 ** 22],
        [manyLines, 1],
      ] as const) {
        timeOf(kind, bodyOf(2 ** 16), chunkBytes);
        const short = timeOf(kind, bodyOf(2 ** 16), chunkBytes);
        const long = timeOf(kind, bodyOf(2 ** 20), chunkBytes);
        // Sixteen times the bytes. Quadratic time would be 256 times as long.
        expect(long, `${kind}, ${bodyOf.name} by ${chunkBytes}`).toBeLessThan(64 * Math.max(short, 2_000));
      }
    }
  });
});
