// The bodies of `npm run bench -- --only turns`: each is as large as Keyrun reads it, and of a
// shape that is slow to read.
/** 1 MiB, with some room for what a caller of another protocol adds. */
const mebibyte = 1_048_576 - 64;

/** As often as it fits into the rest of 1 MiB. */
function filling(begin: string, part: string, end: string): Buffer {
  const times = Math.floor((mebibyte - begin.length - end.length) / Buffer.byteLength(part));
  return Buffer.from(begin + part.repeat(times) + end);
}

function nested(
  begin: string,
  [open, innermost, close]: readonly [string, string, string],
  end: string,
): Buffer {
  const times = Math.floor((mebibyte - begin.length - end.length - 1) / (open.length + close.length));
  return Buffer.from(begin + open.repeat(times) + innermost + close.repeat(times) + end);
}

function names(begin: string, nameOf: (n: number) => string, end: string): Buffer {
  const parts: string[] = [];
  for (let n = 0, size = begin.length + end.length; ; n++) {
    const part = `"${nameOf(n)}":0,`;
    size += part.length;
    if (size > mebibyte) return Buffer.from(begin + parts.join("").slice(0, -1) + end);
    parts.push(part);
  }
}

/** Bodies in JSON for a message with a string `text`, or a list `appIds`. */
export function jsonBodies(): ReadonlyMap<string, Buffer> {
  return new Map([
    ["text of plain letters", filling('{"text":"', "a", '"}')],
    ["text of 4-byte letters", filling('{"text":"', "😀", '"}')],
    ["text of \\u0041", filling('{"text":"', "\\u0041", '"}')],
    ["text of \\ud800, half a letter", filling('{"text":"', "\\ud800", '"}')],
    ["text of quotes", filling('{"text":"', '\\"', '"}')],
    ["text of \\n", filling('{"text":"', "\\n", '"}')],
    ["arrays in arrays", nested('{"text":"a","x":', ["[", "", "]"], "}")],
    ["arrays in arrays, not closed", filling('{"text":"a","x":', "[", "")],
    ["objects in objects", nested('{"text":"a","x":', ['{"a":', "0", "}"], "}")],
    ["arrays in the text", nested('{"text":', ["[", "", "]"], "}")],
    ["names, each once", names("{", (n) => n.toString(36), "}")],
    ["names in an unknown field", names('{"text":"a","x":{', (n) => n.toString(36), "}}")],
    ["names that are numbers", names('{"x":{', (n) => String(n * 40_009), "}}")],
    ["names that repeat", filling('{"text":"a"', ',"text":"a"', "}")],
    ["one long name", filling('{"', "a", '":1}')],
    ["one long name of escapes", filling('{"', "\\u0041", '":1}')],
    ["empty objects", filling('{"text":"a","x":[{}', ",{}", "]}")],
    ["small objects", filling('{"text":"a","x":[{"a":1}', ',{"b":1}', "]}")],
    ["empty arrays", filling('{"text":"a","x":[[]', ",[]", "]}")],
    ["numbers", filling('{"text":"a","x":[0', ",1", "]}")],
    ["numbers of 1e999999", filling('{"text":"a","x":[0', ",1e999999", "]}")],
    ["numbers of 17 digits", filling('{"text":"a","x":[0', ",1.2345678901234567", "]}")],
    ["one number of a million digits", filling('{"text":"a","x":', "7", "}")],
    ["a text that is a number of a million digits", filling('{"text":', "7", "}")],
    ["white space", filling("{", " ", "}")],
    ["a list of texts", filling('{"appIds":[""', ',""', "]}")],
    ["a list of objects", filling('{"appIds":[{}', ",{}", "]}")],
  ]);
}

/** A CreateApp with as many headers as there is room for. */
export const jsonOfApp = filling('{"app":{"id":"x","backend":{"http":{"headers":[{}', ",{}", "]}}}}");

/** Bodies in the binary form, for a message with texts in the fields 1 and 2. */
export function protoBodies(): ReadonlyMap<string, Buffer> {
  const half = mebibyte / 2 - 8;
  // As the varint b0 ff 3f.
  const textBytes = 0x30 + (0x7f << 7) + (0x3f << 14);
  const repeat = (...bytes: number[]) =>
    Buffer.alloc(Math.floor((mebibyte - 8) / bytes.length) * bytes.length, Buffer.from(bytes));
  return new Map([
    ["unknown numbers", repeat(0x78, 1)],
    ["unknown texts", repeat(0x7a, 0)],
    ["unknown groups, in groups", Buffer.concat([Buffer.alloc(half, 0x7b), Buffer.alloc(half, 0x7c)])],
    ["unknown groups, empty", repeat(0x7b, 0x7c)],
    ["the first text again and again", repeat(0x0a, 0)],
    ["the second text again and again", repeat(0x12, 0)],
    ["field 3 again and again", repeat(0x1a, 0)],
    ["field 4 again and again", repeat(0x22, 0)],
    ["field 5 again and again", repeat(0x2a, 0)],
    ["field 6 again and again", repeat(0x32, 0)],
    ["a text", Buffer.concat([Buffer.from([0x12, 0xb0, 0xff, 0x3f]), Buffer.alloc(textBytes, "a")])],
    [
      "a text that is no UTF-8",
      Buffer.concat([Buffer.from([0x12, 0xb0, 0xff, 0x3f]), Buffer.alloc(textBytes, 0x80)]),
    ],
  ]);
}

/** App answers of 1 MiB, by the path under which the app gives them, with their media type. */
export const appAnswers: ReadonlyMap<string, readonly [type: string, body: Buffer]> = new Map([
  ["plain", ["application/json", filling('{"text":"', "a", '"}')]],
  ["escapes", ["application/json", filling('{"text":"', "\\u0041", '"}')]],
  ["controls", ["application/json", filling('{"text":"', "\\u0001", '"}')]],
  ["nested", ["application/json", nested('{"text":"a","x":', ["[", "", "]"], "}")]],
  ["names", ["application/json", names('{"text":"a","x":{', (n) => n.toString(36), "}}")]],
  ["objects", ["application/json", filling('{"text":"a","x":[{}', ",{}", "]}")]],
  ["empty-lines", ["application/x-ndjson", filling('{"text":"a"}\n', "\n", "")]],
  ["lines", ["application/x-ndjson", filling("", '{"text":""}\n', "")]],
  ["event-lines", ["text/event-stream", filling("", "\n", "")]],
  ["data-lines", ["text/event-stream", filling("", "data:\n", "\n")]],
  ["events", ["text/event-stream", filling("", 'data: {"text":""}\n\n', "")]],
]);
