import {
  cancelFrame,
  dataFrame,
  fieldBlock,
  frame,
  frameTypes,
  headersFrame,
  literal,
} from "../harness/h2-frames.ts";

/** The codes of RFC 9113, section 7. */
const errors = {
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refused: 7,
  cancel: 8,
  compression: 9,
  calm: 11,
} as const;

/** What an attack must come to. */
export type Http2End =
  /** The connection ends by GOAWAY with one of these codes. */
  | { readonly connection: readonly number[] }
  /** The stream 1 ends by RST_STREAM with one of these codes; or the connection, as it may be. */
  | { readonly stream: readonly number[] }
  /** The stream 1 is answered with this status and code. */
  | { readonly answer: readonly [status: number, code: string] }
  /** The connection closes, with GOAWAY or without. */
  | "closed"
  /** The bytes are valid, or must be ignored: the connection answers the next request. */
  | "endured";

/** Frames that must be refused over HTTP/2, sent after the preface and empty SETTINGS. */
export interface Http2Attack {
  readonly name: string;
  readonly frames: (key: string) => Buffer;
  readonly end: Http2End;
  /** Sent in place of the preface and empty SETTINGS. */
  readonly opening?: Buffer;
}

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
const {
  data,
  headers,
  priority,
  resetStream,
  settings,
  pushPromise,
  ping,
  goAway,
  windowUpdate,
  continuation,
} = frameTypes;
const endStream = 0x1;
const endHeaders = 0x4;
const padded = 0x8;
const withPriority = 0x20;

type Field = readonly [string, string];
const json = '{"text":"x"}';

/** The head of a good run. */
const runHead = (key: string): Field[] => [
  [":method", "POST"],
  [":scheme", "http"],
  [":authority", "a"],
  [":path", "/api/apps/echo/run"],
  ["authorization", `Bearer ${key}`],
  ["content-type", "application/json"],
];

/** A good run on stream 1, except for its head. */
const runWith = (change: (head: Field[]) => Field[]) => (key: string) =>
  Buffer.concat([headersFrame(1, change(runHead(key)), { hasBody: true }), endingData(1, json)]);
const runWithField = (name: string, value: string) => runWith((head) => [...head, [name, value]]);
const without = (name: string) => runWith((head) => head.filter(([each]) => each !== name));
const runInstead = (name: string, value: string) =>
  runWith((head) => head.map((field) => (field[0] === name ? [name, value] : field)));

const withCredential = (end: string) => (key: string) =>
  runInstead("authorization", `Bearer ${key}${end}`)(key);

/** A good run on this stream whose body does not come. */
const openRun = (key: string, stream = 1) => headersFrame(stream, runHead(key), { hasBody: true });
const endingData = (stream: number, text: string) =>
  frame({ type: data, flags: endStream, stream }, Buffer.from(text));
const uint32 = (...values: number[]) =>
  Buffer.concat(
    values.map((value) => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      return bytes;
    }),
  );
const setting = (id: number, value: number) => Buffer.concat([Buffer.of(0, id), uint32(value)]);
const settingsFrame = (...entries: Buffer[]) =>
  frame({ type: settings, flags: 0, stream: 0 }, Buffer.concat(entries));
/** HEADERS of stream 1 with this block of HPACK. */
const block = (...parts: Uint8Array[]) =>
  frame({ type: headers, flags: endHeaders | endStream, stream: 1 }, Buffer.concat(parts));
const times = (count: number, each: (at: number) => Buffer) =>
  Buffer.concat(Array.from({ length: count }, (_, at) => each(at)));
/** Any frame, as RFC 9113 and its violations have it. */
const of = (type: number, flags: number, stream: number, payload?: Uint8Array) =>
  frame({ type, flags, stream }, payload);
/** Frames behind the head of a good run, or within its head, which does not end. */
const inRun =
  (...frames: Buffer[]) =>
  (key: string) =>
    Buffer.concat([openRun(key), ...frames]);
const inHead =
  (...frames: Buffer[]) =>
  (key: string) =>
    Buffer.concat([of(headers, 0, 1, fieldBlock(runHead(key))), ...frames]);

const connection = (...codes: number[]): Http2End => ({ connection: codes });
const stream = (...codes: number[]): Http2End => ({ stream: codes });
const badConnection = connection(errors.protocol);
const badStream = stream(errors.protocol);
const badSize = connection(errors.frameSize);
const badBlock = connection(errors.compression);
/** Node drops a header whose value HTTP/2 does not allow, and passes the others on. */
const dropped: Http2End = { answer: [401, "missing_api_key"] };
const malformed: Http2End = { answer: [400, "malformed_request"] };

/** A name, the frames, their end, and what opens the connection if it is not as usual. */
type Row = readonly [name: string, Buffer | ((key: string) => Buffer), Http2End, opening?: Buffer];

const framing: Row[] = [
  ["no SETTINGS after the preface", openRun, badConnection, preface],
  [
    "HTTP/1.1 after the preface",
    Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    connection(errors.protocol, errors.frameSize),
    preface,
  ],
  ["the preface twice", preface, connection(errors.protocol, errors.frameSize)],
  [
    "bytes without an order",
    Buffer.from(Array.from({ length: 512 }, (_, at) => (at * 89 + 7) % 256)),
    "closed",
  ],
  ["a frame above 16,384 bytes", inRun(of(data, 0, 1, Buffer.alloc(16_385))), badSize],
  ["a frame of 2^24 - 1 bytes", Buffer.concat([Buffer.of(0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1)]), badSize],
  ["HEADERS above 16,384 bytes", of(headers, 5, 1, Buffer.alloc(16_385)), badSize],
  ["DATA on stream 0", of(data, 0, 0, Buffer.from("x")), badConnection],
  ["HEADERS on stream 0", (key) => headersFrame(0, runHead(key)), badConnection],
  ["PRIORITY on stream 0", of(priority, 0, 0, Buffer.from([0, 0, 0, 1, 0])), "endured"],
  ["RST_STREAM on stream 0", cancelFrame(0), badConnection],
  ["CONTINUATION on stream 0", of(continuation, 4, 0), badConnection],
  ["SETTINGS on stream 1", of(settings, 0, 1), badConnection],
  ["PING on stream 1", of(ping, 0, 1, Buffer.alloc(8)), badConnection],
  ["GOAWAY on stream 1", of(goAway, 0, 1, Buffer.alloc(8)), badConnection],
  ["a request on an even stream", (key) => headersFrame(2, runHead(key)), badConnection],
  ["a request on a lower stream", (key) => Buffer.concat([openRun(key, 3), openRun(key, 1)]), "endured"],
  ["DATA on an idle stream", dataFrame(1, "x"), connection(errors.protocol, errors.streamClosed)],
  ["RST_STREAM on an idle stream", cancelFrame(1), badConnection],
  ["WINDOW_UPDATE on an idle stream", of(windowUpdate, 0, 1, uint32(1)), badConnection],
  ["CONTINUATION without HEADERS", of(continuation, 4, 1), badConnection],
  ["PUSH_PROMISE from a client", inRun(of(pushPromise, 4, 1, uint32(2))), badConnection],
  ["DATA within a header block", inHead(endingData(1, json)), badConnection],
  [
    "HEADERS of another stream within a header block",
    (key) => Buffer.concat([of(headers, 0, 1, fieldBlock(runHead(key))), openRun(key, 3)]),
    badConnection,
  ],
  ["PING within a header block", inHead(of(ping, 0, 0, Buffer.alloc(8))), badConnection],
  ["an unknown frame within a header block", inHead(of(0xbb, 0, 0)), badConnection],
  ["CONTINUATION of another stream", inHead(of(continuation, 4, 3)), badConnection],
  [
    "DATA after the end of its stream",
    (key) => Buffer.concat([openRun(key).fill(endHeaders | endStream, 4, 5), dataFrame(1, "x")]),
    stream(errors.streamClosed),
  ],
  ["DATA with more padding than payload", inRun(of(data, padded, 1, Buffer.of(9, 1, 2))), badConnection],
  [
    "HEADERS with more padding than payload",
    of(headers, endHeaders | padded, 1, Buffer.of(9, 1, 2)),
    badConnection,
  ],
  [
    "HEADERS with priority and no room for it",
    of(headers, endHeaders | withPriority, 1, Buffer.of(0, 0)),
    connection(errors.frameSize, errors.protocol),
  ],
];

const sizes: Row[] = [
  ["SETTINGS of 5 bytes", of(settings, 0, 0, Buffer.alloc(5)), badSize],
  ["an acknowledgement of SETTINGS with bytes", of(settings, 1, 0, setting(3, 1)), badSize],
  ["an acknowledgement of SETTINGS that nobody sent", times(3, () => of(settings, 1, 0)), badConnection],
  ["PING of 7 bytes", of(ping, 0, 0, Buffer.alloc(7)), badSize],
  ["RST_STREAM of 3 bytes", inRun(of(resetStream, 0, 1, Buffer.alloc(3))), badSize],
  ["WINDOW_UPDATE of 3 bytes", of(windowUpdate, 0, 0, Buffer.alloc(3)), badSize],
  ["GOAWAY of 4 bytes", of(goAway, 0, 0, Buffer.alloc(4)), badSize],
  ["PRIORITY of 4 bytes", inRun(of(priority, 0, 1, Buffer.alloc(4))), stream(errors.frameSize)],
];

const flow: Row[] = [
  ["ENABLE_PUSH of 2", settingsFrame(setting(2, 2)), badConnection],
  ["a window of 2^31", settingsFrame(setting(4, 0x80000000)), connection(errors.flowControl)],
  ["a largest frame of 100 bytes", settingsFrame(setting(5, 100)), badConnection],
  ["a largest frame of 2^24 bytes", settingsFrame(setting(5, 0x1000000)), badConnection],
  ["ENABLE_CONNECT_PROTOCOL of 2", settingsFrame(setting(8, 2)), badConnection],
  [
    "33 settings in one frame",
    settingsFrame(...Array.from({ length: 33 }, (_, at) => setting(0x10 + at, at))),
    "closed",
  ],
  ["WINDOW_UPDATE of 0", of(windowUpdate, 0, 0, uint32(0)), badConnection],
  ["WINDOW_UPDATE of 0 on a stream", inRun(of(windowUpdate, 0, 1, uint32(0))), badStream],
  [
    "a window above 2^31 - 1",
    times(2, () => of(windowUpdate, 0, 0, uint32(0x7fffffff))),
    connection(errors.flowControl),
  ],
  [
    "a window above 2^31 - 1 on a stream",
    inRun(times(2, () => of(windowUpdate, 0, 1, uint32(0x7fffffff)))),
    stream(errors.flowControl),
  ],
  [
    "SETTINGS that lift a stream's window above 2^31 - 1",
    inRun(of(windowUpdate, 0, 1, uint32(0x7fff0000)), settingsFrame(setting(4, 0x7fffffff))),
    stream(errors.flowControl),
  ],
];

const hpack: Row[] = [
  ["the index 0", block(Buffer.of(0x80)), badBlock],
  ["an index behind the table", block(Buffer.of(0xff, 0x20)), badBlock],
  ["an index above 32 bits", block(Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)), badBlock],
  ["a name longer than its block", block(Buffer.of(0, 0x7f, 0xff, 0x7f, 0x61)), badBlock],
  ["a value that is missing", block(Buffer.of(0), literal("x-a")), badBlock],
  ["half a field", block(Buffer.of(0x40)), badBlock],
  ["Huffman's end of string", block(Buffer.of(0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, 0x61)), badBlock],
  ["Huffman's padding of zeros", block(Buffer.of(0, 0x81, 0, 1, 0x61)), badBlock],
  ["a table above what was announced", block(Buffer.of(0x3f, 0xe2, 0xff, 0x7f)), badBlock],
  ["a change of the table behind a field", block(Buffer.of(0x82, 0x20)), badBlock],
  [
    "a field of 4,000 bytes, 1,000 times by its index",
    block(
      fieldBlock([
        [":method", "POST"],
        [":scheme", "http"],
        [":authority", "a"],
        [":path", "/"],
      ]),
      Buffer.of(0x40),
      literal("x-a"),
      literal("b".repeat(4_000)),
      Buffer.alloc(1_000, 0xbe),
    ),
    stream(errors.calm, errors.protocol, errors.internal, errors.compression),
  ],
  [
    "20,000 bytes in four CONTINUATION frames",
    (key) =>
      Buffer.concat([
        of(headers, endStream, 1, fieldBlock(runHead(key))),
        times(4, (at) =>
          of(continuation, at === 3 ? endHeaders : 0, 1, fieldBlock([["x-a", "b".repeat(5_000)]])),
        ),
      ]),
    { answer: [431, "headers_too_large"] },
  ],
  [
    "65 headers",
    runWith((head) => [...head, ...Array.from({ length: 59 }, (_, at): Field => [`x-${at}`, "b"])]),
    { answer: [431, "headers_too_large"] },
  ],
  [
    "600 headers",
    runWith((head) => [...head, ...Array.from({ length: 594 }, (_, at): Field => [`x-${at}`, "b"])]),
    stream(errors.calm, errors.protocol, errors.internal),
  ],
];

const heads: Row[] = [
  ["no :method", without(":method"), badStream],
  ["no :scheme", without(":scheme"), badStream],
  ["no :path", without(":path"), badStream],
  ["no :authority and no host", without(":authority"), badStream],
  ["an empty :path", runInstead(":path", ""), badStream],
  ["a :path without a slash", runInstead(":path", "api/apps/echo/run"), badStream],
  ["a :path of *", runInstead(":path", "*"), badStream],
  ["a :path with a space", runInstead(":path", "/api/apps/echo/run x"), badStream],
  ["a :path with CR and LF", runInstead(":path", "/api/apps/echo/run\r\nx: y"), badStream],
  ["a :path with NUL", runInstead(":path", "/api/apps/echo/run\0"), badStream],
  ["an empty :method", runInstead(":method", ""), badStream],
  ["a :method with a space", runInstead(":method", "POST x"), badStream],
  ["a :scheme that is no scheme", runInstead(":scheme", "ht tp"), badStream],
  ["an :authority with a space", runInstead(":authority", "a b"), badStream],
  ["an :authority with a path", runInstead(":authority", "evil/x"), badStream],
  ["an :authority with a user", runInstead(":authority", "u:p@evil"), badStream],
  ["an :authority with half a bracket", runInstead(":authority", "[::1"), malformed],
  ["an :authority with a port above 65535", runInstead(":authority", "a:99999"), malformed],
  ["two :path", runWith((head) => [[":path", "/healthz"], ...head]), badStream],
  ["two :method", runWith((head) => [[":method", "GET"], ...head]), badStream],
  ["two :authority", runWith((head) => [[":authority", "b"], ...head]), badStream],
  ["an unknown pseudo-header", runWith((head) => [[":x", "y"], ...head]), badStream],
  [":status in a request", runWith((head) => [[":status", "200"], ...head]), badStream],
  [
    ":protocol, which nobody enabled",
    runWith((head) => [
      [":protocol", "websocket"],
      ...head.map((field): Field => (field[0] === ":method" ? [":method", "CONNECT"] : field)),
    ]),
    badStream,
  ],
  ["a pseudo-header behind a header", runWith(([method, ...head]) => [...head, method!]), badStream],
  ["CONNECT with a :path", runInstead(":method", "CONNECT"), badStream],
  ["CONNECT without an :authority", headersFrame(1, [[":method", "CONNECT"]]), badStream],
  ["a host beside another :authority", runWithField("host", "b"), malformed],
  [
    "two hosts",
    runWith((head) => [...head.filter(([name]) => name !== ":authority"), ["host", "a"], ["host", "b"]]),
    badStream,
  ],
  ["two types", runWithField("content-type", "text/plain"), malformed],
  [
    "two credentials",
    (key) => runWithField("authorization", `Bearer ${key}`)(key),
    { answer: [401, "malformed_authorization"] },
  ],
  ["a name in capitals", runWithField("X-A", "b"), badStream],
  ["a credential with CR and LF", withCredential("\r\nx-b: c"), dropped],
  ["a credential with LF", withCredential("\n"), dropped],
  ["a credential with NUL", withCredential("\0"), dropped],
  ["a credential with a control character", withCredential("\x01"), dropped],
  ["connection", runWithField("connection", "close"), badStream],
  ["keep-alive", runWithField("keep-alive", "timeout=5"), badStream],
  ["proxy-connection", runWithField("proxy-connection", "close"), badStream],
  ["transfer-encoding", runWithField("transfer-encoding", "chunked"), badStream],
  ["upgrade", runWithField("upgrade", "h2c"), badStream],
  ["te of gzip", runWithField("te", "gzip"), badStream],
  [
    "a length below the body's",
    runWithField("content-length", "11"),
    stream(errors.protocol, errors.internal),
  ],
  ["a length above the body's", runWithField("content-length", "13"), badStream],
  [
    "two lengths",
    runWith((head) => [...head, ["content-length", "12"], ["content-length", "13"]]),
    badStream,
  ],
  ["a length that is no number", runWithField("content-length", "twelve"), badStream],
  ["a negative length", runWithField("content-length", "-12"), badStream],
  ["a length above 64 bits", runWithField("content-length", "18446744073709551628"), badStream],
  ["trailers with a pseudo-header", inRun(dataFrame(1, json), headersFrame(1, [[":path", "/"]])), badStream],
  [
    "trailers that do not end the stream",
    inRun(dataFrame(1, json), headersFrame(1, [["x-a", "b"]], { hasBody: true })),
    badStream,
  ],
  ["trailers with a name in capitals", inRun(dataFrame(1, json), headersFrame(1, [["X-A", "b"]])), badStream],
];

/** A request that is refused for its path, on a stream of a client. */
const lost = (id: number) =>
  headersFrame(id, [
    [":method", "GET"],
    [":scheme", "http"],
    [":authority", "a"],
    [":path", "/nowhere"],
  ]);
const odd = (at: number) => 2 * at + 1;

const floods: Row[] = [
  ["20,000 PING", times(20_000, () => of(ping, 0, 0, Buffer.alloc(8))), "closed"],
  ["20,000 SETTINGS", times(20_000, () => settingsFrame(setting(3, 100))), "closed"],
  ["20,000 empty DATA", inRun(times(20_000, () => of(data, 0, 1))), "closed"],
  [
    "200 DATA of nothing but padding",
    inRun(times(200, () => of(data, padded, 1, Buffer.concat([Buffer.of(255), Buffer.alloc(255)])))),
    "endured",
  ],
  [
    "20,000 PRIORITY",
    times(20_000, (at) => of(priority, 0, odd(at), Buffer.concat([uint32(odd(at + 1)), Buffer.of(7)]))),
    "closed",
  ],
  ["20,000 WINDOW_UPDATE", times(20_000, () => of(windowUpdate, 0, 0, uint32(1))), "endured"],
  ["20,000 unknown frames", times(20_000, () => of(0xbb, 0xff, 0, Buffer.alloc(8))), "closed"],
  ["20,000 RST_STREAM of one stream", inRun(times(20_000, () => cancelFrame(1))), "closed"],
  ["10,000 empty CONTINUATION", inHead(times(10_000, () => of(continuation, 0, 1))), "closed"],
  [
    "1,000 CONTINUATION of 1,000 bytes",
    inHead(times(1_000, () => of(continuation, 0, 1, fieldBlock([["x-a", "b".repeat(990)]])))),
    "closed",
  ],
  [
    "2,000 runs that are reset at once",
    (key) => times(2_000, (at) => Buffer.concat([openRun(key, odd(at)), cancelFrame(odd(at))])),
    "closed",
  ],
  [
    "2,000 requests that make the server reset them",
    times(2_000, (at) => Buffer.concat([lost(odd(at)), of(windowUpdate, 0, odd(at), uint32(0))])),
    "closed",
  ],
  ["1,000 open runs", (key) => times(1_000, (at) => openRun(key, odd(at))), "closed"],
  ["1,000 malformed heads", times(1_000, (at) => headersFrame(odd(at), [[":method", "GET"]])), "closed"],
  ["2,000 requests for what is not there", times(2_000, (at) => lost(odd(at))), "closed"],
  [
    "100 changes of the table in each of 100 heads",
    times(100, (at) =>
      of(
        headers,
        5,
        odd(at),
        Buffer.concat([
          Buffer.alloc(100, 0x20),
          fieldBlock([
            [":method", "GET"],
            [":scheme", "http"],
            [":authority", "a"],
            [":path", "/nowhere"],
          ]),
        ]),
      ),
    ),
    "endured",
  ],
  [
    "100 requests whose answers may not be sent",
    Buffer.concat([settingsFrame(setting(4, 0)), times(100, (at) => lost(odd(at)))]),
    "endured",
  ],
  [
    "a stream that depends on itself",
    of(priority, 0, 1, Buffer.concat([uint32(1), Buffer.of(7)])),
    "endured",
  ],
  [
    "a request that depends on itself",
    (key) =>
      of(
        headers,
        endHeaders | withPriority,
        1,
        Buffer.concat([uint32(1), Buffer.of(7), fieldBlock(runHead(key))]),
      ),
    badConnection,
  ],
  ["the last stream, and one more", () => Buffer.concat([lost(0x7fffffff), lost(1)]), "endured"],
];

const tables: Readonly<Record<string, readonly Row[]>> = {
  frames: framing,
  sizes,
  "windows and settings": flow,
  compression: hpack,
  floods,
  heads,
};

export const http2Attacks: readonly Http2Attack[] = Object.entries(tables).flatMap(([table, rows]) =>
  rows.map(([name, frames, end, opening]) => ({
    name: `${table}: ${name}`,
    frames: typeof frames === "function" ? frames : () => frames,
    end,
    ...(opening && { opening }),
  })),
);
