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
const always = (bytes: Buffer) => () => bytes;

const connection = (...codes: number[]): Http2End => ({ connection: codes });
const stream = (...codes: number[]): Http2End => ({ stream: codes });
/** Node drops a header whose value HTTP/2 does not allow, and passes the others on. */
const dropped: Http2End = { answer: [401, "missing_api_key"] };
const malformed: Http2End = { answer: [400, "malformed_request"] };

const framing: Http2Attack[] = [
  {
    name: "no SETTINGS after the preface",
    opening: preface,
    frames: openRun,
    end: connection(errors.protocol),
  },
  {
    name: "HTTP/1.1 after the preface",
    opening: preface,
    frames: always(Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
    end: connection(errors.protocol, errors.frameSize),
  },
  { name: "the preface twice", frames: always(preface), end: connection(errors.protocol, errors.frameSize) },
  {
    name: "bytes without an order",
    frames: always(Buffer.from(Array.from({ length: 512 }, (_, at) => (at * 89 + 7) % 256))),
    end: "closed",
  },
  {
    name: "a frame above 16,384 bytes",
    frames: (key) =>
      Buffer.concat([openRun(key), frame({ type: data, flags: 0, stream: 1 }, Buffer.alloc(16_385))]),
    end: connection(errors.frameSize),
  },
  {
    name: "a frame of 2^24 - 1 bytes",
    frames: always(Buffer.concat([Buffer.of(0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1)])),
    end: connection(errors.frameSize),
  },
  {
    name: "HEADERS above 16,384 bytes",
    frames: always(frame({ type: headers, flags: 5, stream: 1 }, Buffer.alloc(16_385))),
    end: connection(errors.frameSize),
  },
  {
    name: "DATA on stream 0",
    frames: always(frame({ type: data, flags: 0, stream: 0 }, Buffer.from("x"))),
    end: connection(errors.protocol),
  },
  {
    name: "HEADERS on stream 0",
    frames: (key) => headersFrame(0, runHead(key)),
    end: connection(errors.protocol),
  },
  {
    name: "PRIORITY on stream 0",
    frames: always(frame({ type: priority, flags: 0, stream: 0 }, Buffer.from([0, 0, 0, 1, 0]))),
    end: "endured",
  },
  { name: "RST_STREAM on stream 0", frames: always(cancelFrame(0)), end: connection(errors.protocol) },
  {
    name: "CONTINUATION on stream 0",
    frames: always(frame({ type: continuation, flags: 4, stream: 0 })),
    end: connection(errors.protocol),
  },
  {
    name: "SETTINGS on stream 1",
    frames: always(frame({ type: settings, flags: 0, stream: 1 })),
    end: connection(errors.protocol),
  },
  {
    name: "PING on stream 1",
    frames: always(frame({ type: ping, flags: 0, stream: 1 }, Buffer.alloc(8))),
    end: connection(errors.protocol),
  },
  {
    name: "GOAWAY on stream 1",
    frames: always(frame({ type: goAway, flags: 0, stream: 1 }, Buffer.alloc(8))),
    end: connection(errors.protocol),
  },
  {
    name: "a request on an even stream",
    frames: (key) => headersFrame(2, runHead(key)),
    end: connection(errors.protocol),
  },
  {
    name: "a request on a lower stream",
    frames: (key) => Buffer.concat([openRun(key, 3), openRun(key, 1)]),
    end: "endured",
  },
  {
    name: "DATA on an idle stream",
    frames: always(dataFrame(1, "x")),
    end: connection(errors.protocol, errors.streamClosed),
  },
  { name: "RST_STREAM on an idle stream", frames: always(cancelFrame(1)), end: connection(errors.protocol) },
  {
    name: "WINDOW_UPDATE on an idle stream",
    frames: always(frame({ type: windowUpdate, flags: 0, stream: 1 }, uint32(1))),
    end: connection(errors.protocol),
  },
  {
    name: "CONTINUATION without HEADERS",
    frames: always(frame({ type: continuation, flags: 4, stream: 1 })),
    end: connection(errors.protocol),
  },
  {
    name: "PUSH_PROMISE from a client",
    frames: (key) =>
      Buffer.concat([openRun(key), frame({ type: pushPromise, flags: 4, stream: 1 }, uint32(2))]),
    end: connection(errors.protocol),
  },
  {
    name: "DATA within a header block",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        endingData(1, json),
      ]),
    end: connection(errors.protocol),
  },
  {
    name: "HEADERS of another stream within a header block",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        openRun(key, 3),
      ]),
    end: connection(errors.protocol),
  },
  {
    name: "PING within a header block",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        frame({ type: ping, flags: 0, stream: 0 }, Buffer.alloc(8)),
      ]),
    end: connection(errors.protocol),
  },
  {
    name: "an unknown frame within a header block",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        frame({ type: 0xbb, flags: 0, stream: 0 }),
      ]),
    end: connection(errors.protocol),
  },
  {
    name: "CONTINUATION of another stream",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        frame({ type: continuation, flags: 4, stream: 3 }),
      ]),
    end: connection(errors.protocol),
  },
  {
    name: "DATA after the end of its stream",
    frames: (key) => Buffer.concat([openRun(key).fill(endHeaders | endStream, 4, 5), dataFrame(1, "x")]),
    end: stream(errors.streamClosed),
  },
  {
    name: "DATA with more padding than payload",
    frames: (key) =>
      Buffer.concat([openRun(key), frame({ type: data, flags: padded, stream: 1 }, Buffer.of(9, 1, 2))]),
    end: connection(errors.protocol),
  },
  {
    name: "HEADERS with more padding than payload",
    frames: always(frame({ type: headers, flags: endHeaders | padded, stream: 1 }, Buffer.of(9, 1, 2))),
    end: connection(errors.protocol),
  },
  {
    name: "HEADERS with priority and no room for it",
    frames: always(frame({ type: headers, flags: endHeaders | withPriority, stream: 1 }, Buffer.of(0, 0))),
    end: connection(errors.frameSize, errors.protocol),
  },
];

const sizes: Http2Attack[] = [
  {
    name: "SETTINGS of 5 bytes",
    frames: always(frame({ type: settings, flags: 0, stream: 0 }, Buffer.alloc(5))),
    end: connection(errors.frameSize),
  },
  {
    name: "an acknowledgement of SETTINGS with bytes",
    frames: always(frame({ type: settings, flags: 1, stream: 0 }, setting(3, 1))),
    end: connection(errors.frameSize),
  },
  {
    name: "an acknowledgement of SETTINGS that nobody sent",
    frames: always(times(3, () => frame({ type: settings, flags: 1, stream: 0 }))),
    end: connection(errors.protocol),
  },
  {
    name: "PING of 7 bytes",
    frames: always(frame({ type: ping, flags: 0, stream: 0 }, Buffer.alloc(7))),
    end: connection(errors.frameSize),
  },
  {
    name: "RST_STREAM of 3 bytes",
    frames: (key) =>
      Buffer.concat([openRun(key), frame({ type: resetStream, flags: 0, stream: 1 }, Buffer.alloc(3))]),
    end: connection(errors.frameSize),
  },
  {
    name: "WINDOW_UPDATE of 3 bytes",
    frames: always(frame({ type: windowUpdate, flags: 0, stream: 0 }, Buffer.alloc(3))),
    end: connection(errors.frameSize),
  },
  {
    name: "GOAWAY of 4 bytes",
    frames: always(frame({ type: goAway, flags: 0, stream: 0 }, Buffer.alloc(4))),
    end: connection(errors.frameSize),
  },
  {
    name: "PRIORITY of 4 bytes",
    frames: (key) =>
      Buffer.concat([openRun(key), frame({ type: priority, flags: 0, stream: 1 }, Buffer.alloc(4))]),
    end: stream(errors.frameSize),
  },
];

const flow: Http2Attack[] = [
  {
    name: "ENABLE_PUSH of 2",
    frames: always(settingsFrame(setting(2, 2))),
    end: connection(errors.protocol),
  },
  {
    name: "a window of 2^31",
    frames: always(settingsFrame(setting(4, 0x80000000))),
    end: connection(errors.flowControl),
  },
  {
    name: "a largest frame of 100 bytes",
    frames: always(settingsFrame(setting(5, 100))),
    end: connection(errors.protocol),
  },
  {
    name: "a largest frame of 2^24 bytes",
    frames: always(settingsFrame(setting(5, 0x1000000))),
    end: connection(errors.protocol),
  },
  {
    name: "ENABLE_CONNECT_PROTOCOL of 2",
    frames: always(settingsFrame(setting(8, 2))),
    end: connection(errors.protocol),
  },
  {
    name: "33 settings in one frame",
    frames: always(settingsFrame(...Array.from({ length: 33 }, (_, at) => setting(0x10 + at, at)))),
    end: "closed",
  },
  {
    name: "WINDOW_UPDATE of 0",
    frames: always(frame({ type: windowUpdate, flags: 0, stream: 0 }, uint32(0))),
    end: connection(errors.protocol),
  },
  {
    name: "WINDOW_UPDATE of 0 on a stream",
    frames: (key) =>
      Buffer.concat([openRun(key), frame({ type: windowUpdate, flags: 0, stream: 1 }, uint32(0))]),
    end: stream(errors.protocol),
  },
  {
    name: "a window above 2^31 - 1",
    frames: always(times(2, () => frame({ type: windowUpdate, flags: 0, stream: 0 }, uint32(0x7fffffff)))),
    end: connection(errors.flowControl),
  },
  {
    name: "a window above 2^31 - 1 on a stream",
    frames: (key) =>
      Buffer.concat([
        openRun(key),
        times(2, () => frame({ type: windowUpdate, flags: 0, stream: 1 }, uint32(0x7fffffff))),
      ]),
    end: stream(errors.flowControl),
  },
  {
    name: "SETTINGS that lift a stream's window above 2^31 - 1",
    frames: (key) =>
      Buffer.concat([
        openRun(key),
        frame({ type: windowUpdate, flags: 0, stream: 1 }, uint32(0x7fff0000)),
        settingsFrame(setting(4, 0x7fffffff)),
      ]),
    end: stream(errors.flowControl),
  },
];

const hpack: Http2Attack[] = [
  { name: "the index 0", frames: always(block(Buffer.of(0x80))), end: connection(errors.compression) },
  {
    name: "an index behind the table",
    frames: always(block(Buffer.of(0xff, 0x20))),
    end: connection(errors.compression),
  },
  {
    name: "an index above 32 bits",
    frames: always(block(Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))),
    end: connection(errors.compression),
  },
  {
    name: "a name longer than its block",
    frames: always(block(Buffer.of(0, 0x7f, 0xff, 0x7f, 0x61))),
    end: connection(errors.compression),
  },
  {
    name: "a value that is missing",
    frames: always(block(Buffer.of(0), literal("x-a"))),
    end: connection(errors.compression),
  },
  { name: "half a field", frames: always(block(Buffer.of(0x40))), end: connection(errors.compression) },
  {
    name: "Huffman's end of string",
    frames: always(block(Buffer.of(0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, 0x61))),
    end: connection(errors.compression),
  },
  {
    name: "Huffman's padding of zeros",
    frames: always(block(Buffer.of(0, 0x81, 0, 1, 0x61))),
    end: connection(errors.compression),
  },
  {
    name: "a table above what was announced",
    frames: always(block(Buffer.of(0x3f, 0xe2, 0xff, 0x7f))),
    end: connection(errors.compression),
  },
  {
    name: "a change of the table behind a field",
    frames: always(block(Buffer.of(0x82, 0x20))),
    end: connection(errors.compression),
  },
  {
    name: "a field of 4,000 bytes, 1,000 times by its index",
    frames: always(
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
    ),
    end: stream(errors.calm, errors.protocol, errors.internal, errors.compression),
  },
  {
    name: "20,000 bytes in four CONTINUATION frames",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: endStream, stream: 1 }, fieldBlock(runHead(key))),
        times(4, (at) =>
          frame(
            { type: continuation, flags: at === 3 ? endHeaders : 0, stream: 1 },
            fieldBlock([["x-a", "b".repeat(5_000)]]),
          ),
        ),
      ]),
    end: { answer: [431, "headers_too_large"] },
  },
  {
    name: "65 headers",
    frames: runWith((head) => [...head, ...Array.from({ length: 59 }, (_, at): Field => [`x-${at}`, "b"])]),
    end: { answer: [431, "headers_too_large"] },
  },
  {
    name: "600 headers",
    frames: runWith((head) => [...head, ...Array.from({ length: 594 }, (_, at): Field => [`x-${at}`, "b"])]),
    end: stream(errors.calm, errors.protocol, errors.internal),
  },
];

const heads: Http2Attack[] = [
  { name: "no :method", frames: without(":method"), end: stream(errors.protocol) },
  { name: "no :scheme", frames: without(":scheme"), end: stream(errors.protocol) },
  { name: "no :path", frames: without(":path"), end: stream(errors.protocol) },
  { name: "no :authority and no host", frames: without(":authority"), end: stream(errors.protocol) },
  { name: "an empty :path", frames: runInstead(":path", ""), end: stream(errors.protocol) },
  {
    name: "a :path without a slash",
    frames: runInstead(":path", "api/apps/echo/run"),
    end: stream(errors.protocol),
  },
  { name: "a :path of *", frames: runInstead(":path", "*"), end: stream(errors.protocol) },
  {
    name: "a :path with a space",
    frames: runInstead(":path", "/api/apps/echo/run x"),
    end: stream(errors.protocol),
  },
  {
    name: "a :path with CR and LF",
    frames: runInstead(":path", "/api/apps/echo/run\r\nx: y"),
    end: stream(errors.protocol),
  },
  {
    name: "a :path with NUL",
    frames: runInstead(":path", "/api/apps/echo/run\0"),
    end: stream(errors.protocol),
  },
  { name: "an empty :method", frames: runInstead(":method", ""), end: stream(errors.protocol) },
  { name: "a :method with a space", frames: runInstead(":method", "POST x"), end: stream(errors.protocol) },
  {
    name: "a :scheme that is no scheme",
    frames: runInstead(":scheme", "ht tp"),
    end: stream(errors.protocol),
  },
  {
    name: "an :authority with a space",
    frames: runInstead(":authority", "a b"),
    end: stream(errors.protocol),
  },
  {
    name: "an :authority with a path",
    frames: runInstead(":authority", "evil/x"),
    end: stream(errors.protocol),
  },
  {
    name: "an :authority with a user",
    frames: runInstead(":authority", "u:p@evil"),
    end: stream(errors.protocol),
  },
  { name: "an :authority with half a bracket", frames: runInstead(":authority", "[::1"), end: malformed },
  {
    name: "an :authority with a port above 65535",
    frames: runInstead(":authority", "a:99999"),
    end: malformed,
  },
  {
    name: "two :path",
    frames: runWith((head) => [[":path", "/healthz"], ...head]),
    end: stream(errors.protocol),
  },
  {
    name: "two :method",
    frames: runWith((head) => [[":method", "GET"], ...head]),
    end: stream(errors.protocol),
  },
  {
    name: "two :authority",
    frames: runWith((head) => [[":authority", "b"], ...head]),
    end: stream(errors.protocol),
  },
  {
    name: "an unknown pseudo-header",
    frames: runWith((head) => [[":x", "y"], ...head]),
    end: stream(errors.protocol),
  },
  {
    name: ":status in a request",
    frames: runWith((head) => [[":status", "200"], ...head]),
    end: stream(errors.protocol),
  },
  {
    name: ":protocol, which nobody enabled",
    frames: runWith((head) => [
      [":protocol", "websocket"],
      ...head.map((field): Field => (field[0] === ":method" ? [":method", "CONNECT"] : field)),
    ]),
    end: stream(errors.protocol),
  },
  {
    name: "a pseudo-header behind a header",
    frames: runWith(([method, ...head]) => [...head, method!]),
    end: stream(errors.protocol),
  },
  { name: "CONNECT with a :path", frames: runInstead(":method", "CONNECT"), end: stream(errors.protocol) },
  {
    name: "CONNECT without an :authority",
    frames: always(headersFrame(1, [[":method", "CONNECT"]])),
    end: stream(errors.protocol),
  },
  { name: "a host beside another :authority", frames: runWithField("host", "b"), end: malformed },
  {
    name: "two hosts",
    frames: runWith((head) => [
      ...head.filter(([name]) => name !== ":authority"),
      ["host", "a"],
      ["host", "b"],
    ]),
    end: stream(errors.protocol),
  },
  { name: "two types", frames: runWithField("content-type", "text/plain"), end: malformed },
  {
    name: "two credentials",
    frames: (key) => runWithField("authorization", `Bearer ${key}`)(key),
    end: { answer: [401, "malformed_authorization"] },
  },
  { name: "a name in capitals", frames: runWithField("X-A", "b"), end: stream(errors.protocol) },
  { name: "a credential with CR and LF", frames: withCredential("\r\nx-b: c"), end: dropped },
  { name: "a credential with LF", frames: withCredential("\n"), end: dropped },
  { name: "a credential with NUL", frames: withCredential("\0"), end: dropped },
  { name: "a credential with a control character", frames: withCredential("\x01"), end: dropped },
  { name: "connection", frames: runWithField("connection", "close"), end: stream(errors.protocol) },
  { name: "keep-alive", frames: runWithField("keep-alive", "timeout=5"), end: stream(errors.protocol) },
  {
    name: "proxy-connection",
    frames: runWithField("proxy-connection", "close"),
    end: stream(errors.protocol),
  },
  {
    name: "transfer-encoding",
    frames: runWithField("transfer-encoding", "chunked"),
    end: stream(errors.protocol),
  },
  { name: "upgrade", frames: runWithField("upgrade", "h2c"), end: stream(errors.protocol) },
  { name: "te of gzip", frames: runWithField("te", "gzip"), end: stream(errors.protocol) },
  {
    name: "a length below the body's",
    frames: runWithField("content-length", "11"),
    end: stream(errors.protocol, errors.internal),
  },
  {
    name: "a length above the body's",
    frames: runWithField("content-length", "13"),
    end: stream(errors.protocol),
  },
  {
    name: "two lengths",
    frames: runWith((head) => [...head, ["content-length", "12"], ["content-length", "13"]]),
    end: stream(errors.protocol),
  },
  {
    name: "a length that is no number",
    frames: runWithField("content-length", "twelve"),
    end: stream(errors.protocol),
  },
  { name: "a negative length", frames: runWithField("content-length", "-12"), end: stream(errors.protocol) },
  {
    name: "a length above 64 bits",
    frames: runWithField("content-length", "18446744073709551628"),
    end: stream(errors.protocol),
  },
  {
    name: "trailers with a pseudo-header",
    frames: (key) => Buffer.concat([openRun(key), dataFrame(1, json), headersFrame(1, [[":path", "/"]])]),
    end: stream(errors.protocol),
  },
  {
    name: "trailers that do not end the stream",
    frames: (key) =>
      Buffer.concat([openRun(key), dataFrame(1, json), headersFrame(1, [["x-a", "b"]], { hasBody: true })]),
    end: stream(errors.protocol),
  },
  {
    name: "trailers with a name in capitals",
    frames: (key) => Buffer.concat([openRun(key), dataFrame(1, json), headersFrame(1, [["X-A", "b"]])]),
    end: stream(errors.protocol),
  },
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

const floods: Http2Attack[] = [
  {
    name: "20,000 PING",
    frames: always(times(20_000, () => frame({ type: ping, flags: 0, stream: 0 }, Buffer.alloc(8)))),
    end: "closed",
  },
  {
    name: "20,000 SETTINGS",
    frames: always(times(20_000, () => settingsFrame(setting(3, 100)))),
    end: "closed",
  },
  {
    name: "20,000 empty DATA",
    frames: (key) =>
      Buffer.concat([openRun(key), times(20_000, () => frame({ type: data, flags: 0, stream: 1 }))]),
    end: "closed",
  },
  {
    name: "200 DATA of nothing but padding",
    frames: (key) =>
      Buffer.concat([
        openRun(key),
        times(200, () =>
          frame({ type: data, flags: padded, stream: 1 }, Buffer.concat([Buffer.of(255), Buffer.alloc(255)])),
        ),
      ]),
    end: "endured",
  },
  {
    name: "20,000 PRIORITY",
    frames: always(
      times(20_000, (at) =>
        frame(
          { type: priority, flags: 0, stream: odd(at) },
          Buffer.concat([uint32(odd(at + 1)), Buffer.of(7)]),
        ),
      ),
    ),
    end: "closed",
  },
  {
    name: "20,000 WINDOW_UPDATE",
    frames: always(times(20_000, () => frame({ type: windowUpdate, flags: 0, stream: 0 }, uint32(1)))),
    end: "endured",
  },
  {
    name: "20,000 unknown frames",
    frames: always(times(20_000, () => frame({ type: 0xbb, flags: 0xff, stream: 0 }, Buffer.alloc(8)))),
    end: "closed",
  },
  {
    name: "20,000 RST_STREAM of one stream",
    frames: (key) => Buffer.concat([openRun(key), times(20_000, () => cancelFrame(1))]),
    end: "closed",
  },
  {
    name: "10,000 empty CONTINUATION",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        times(10_000, () => frame({ type: continuation, flags: 0, stream: 1 })),
      ]),
    end: "closed",
  },
  {
    name: "1,000 CONTINUATION of 1,000 bytes",
    frames: (key) =>
      Buffer.concat([
        frame({ type: headers, flags: 0, stream: 1 }, fieldBlock(runHead(key))),
        times(1_000, () =>
          frame({ type: continuation, flags: 0, stream: 1 }, fieldBlock([["x-a", "b".repeat(990)]])),
        ),
      ]),
    end: "closed",
  },
  {
    name: "2,000 runs that are reset at once",
    frames: (key) => times(2_000, (at) => Buffer.concat([openRun(key, odd(at)), cancelFrame(odd(at))])),
    end: "closed",
  },
  {
    name: "2,000 requests that make the server reset them",
    frames: always(
      times(2_000, (at) =>
        Buffer.concat([lost(odd(at)), frame({ type: windowUpdate, flags: 0, stream: odd(at) }, uint32(0))]),
      ),
    ),
    end: "closed",
  },
  { name: "1,000 open runs", frames: (key) => times(1_000, (at) => openRun(key, odd(at))), end: "closed" },
  {
    name: "1,000 malformed heads",
    frames: always(times(1_000, (at) => headersFrame(odd(at), [[":method", "GET"]]))),
    end: "closed",
  },
  {
    name: "2,000 requests for what is not there",
    frames: always(times(2_000, (at) => lost(odd(at)))),
    end: "closed",
  },
  {
    name: "100 changes of the table in each of 100 heads",
    frames: always(
      times(100, (at) =>
        frame(
          { type: headers, flags: 5, stream: odd(at) },
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
    ),
    end: "endured",
  },
  {
    name: "100 requests whose answers may not be sent",
    frames: always(Buffer.concat([settingsFrame(setting(4, 0)), times(100, (at) => lost(odd(at)))])),
    end: "endured",
  },
  {
    name: "a stream that depends on itself",
    frames: always(frame({ type: priority, flags: 0, stream: 1 }, Buffer.concat([uint32(1), Buffer.of(7)]))),
    end: "endured",
  },
  {
    name: "a request that depends on itself",
    frames: (key) =>
      frame(
        { type: headers, flags: endHeaders | withPriority, stream: 1 },
        Buffer.concat([uint32(1), Buffer.of(7), fieldBlock(runHead(key))]),
      ),
    end: connection(errors.protocol),
  },
  {
    name: "the last stream, and one more",
    frames: () => Buffer.concat([lost(0x7fffffff), lost(1)]),
    end: "endured",
  },
];

export const http2Attacks: readonly Http2Attack[] = [
  ...framing.map((one) => ({ ...one, name: `frames: ${one.name}` })),
  ...sizes.map((one) => ({ ...one, name: `sizes: ${one.name}` })),
  ...flow.map((one) => ({ ...one, name: `windows and settings: ${one.name}` })),
  ...hpack.map((one) => ({ ...one, name: `compression: ${one.name}` })),
  ...floods.map((one) => ({ ...one, name: `floods: ${one.name}` })),
  ...heads.map((one) => ({ ...one, name: `heads: ${one.name}` })),
];
