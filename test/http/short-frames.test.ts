import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type StreamAppResponse, StreamAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { type FrameForm, ShortFrames, shortTextMax } from "#src/http/short-frames.ts";
import { frameOf } from "#src/rpc/grpc/frame.ts";
import { inOneLine, streamForms } from "#transcode/encode.ts";

const withText = (text: string): StreamAppResponse =>
  create(StreamAppResponseSchema, { event: { case: "delta", value: { text } } });
const jsonOf = (message: StreamAppResponse) =>
  toJsonString(StreamAppResponseSchema, message, { alwaysEmitImplicit: true });
const rest = (type: keyof typeof streamForms) => (message: StreamAppResponse) =>
  Buffer.from(streamForms[type].message({ contentType: "application/json", body: jsonOf(message) }));

const inJson = (text: string) => JSON.stringify(text).slice(1, -1);
const inLine = (text: string) => inOneLine(JSON.stringify(text)).slice(1, -1);

const forms: Record<string, FrameForm<StreamAppResponse>> = {
  "server-sent events": { written: inLine, frameOf: rest("text/event-stream") },
  "lines of JSON": { written: inLine, frameOf: rest("application/x-ndjson") },
  "Connect with JSON": { written: inJson, frameOf: (message) => frameOf(Buffer.from(jsonOf(message))) },
  gRPC: {
    written: (text) => text,
    frameOf: (message) => frameOf(toBinary(StreamAppResponseSchema, message)),
  },
};

/** Every unit below 0x180, and others that some form of JSON escapes, each in several places. */
const units = [
  ...Array.from({ length: 0x180 }, (_, code) => String.fromCharCode(code)),
  ...["\u2028", "\u2029", "\ufeff", "\ufffd", "\uffff", "😀", '\\"', "\\u0041", "</script>", '"}}\n\n'],
];
const lengths = Array.from({ length: shortTextMax }, (_, n) => n + 1);
const texts = [
  ...units.flatMap((unit) => [unit, `${unit}a`, `a${unit}`, `${"a".repeat(20)}${unit}`, unit.repeat(30)]),
  ...lengths.flatMap((length) => ["a", "b", "\u0001", '"', "é", "語"].map((unit) => unit.repeat(length))),
].filter(({ length }) => length <= shortTextMax);

function framesOf(texts: readonly string[], form: FrameForm<StreamAppResponse>) {
  const left = texts[Symbol.iterator]();
  return new ShortFrames<StreamAppResponse>(
    {
      takeShortText: () => left.next().value,
      withText,
      [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
    },
    form,
  );
}

function* takeAll(frames: ShortFrames<StreamAppResponse>) {
  for (;;) {
    const more = frames.joinTo(new Uint8Array());
    if (more.length === 0) return;
    yield more;
  }
}

test.each(Object.entries(forms))("%s: messages together have the bytes of each alone", (_, form) => {
  const frames = framesOf(texts, form);
  const taken = [...takeAll(frames)];
  const alone = Buffer.concat(texts.map((text) => form.frameOf(withText(text))));
  expect(Buffer.concat(taken).equals(alone)).toBe(true);
  expect(Math.max(...taken.map(({ length }) => length))).toBeLessThanOrEqual(16 * 1024);
});

test.each(Object.entries(forms))("%s: a message is encoded at most twice for each length", (_, form) => {
  let encoded = 0;
  const counted: FrameForm<StreamAppResponse> = {
    ...form,
    frameOf(message) {
      encoded += 1;
      return form.frameOf(message);
    },
  };
  const words = Array.from({ length: 3_000 }, (_, n) => ["a ", "the ", 'a "word" ', "größer "][n % 4]!);
  const frames = framesOf(words, counted);
  for (const _ of takeAll(frames));
  expect(encoded).toBeLessThanOrEqual(12);
});
