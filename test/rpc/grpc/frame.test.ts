import fc from "fast-check";
import { expect, test } from "vitest";
import { frameOf, prefixBytes, readMessage } from "#src/rpc/grpc/frame.ts";

const problem = expect.any(String);

test("a message is read unchanged from its frame, wherever the frame begins in its buffer", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.nat(20), (message, offset) => {
      const frame = frameOf(message);
      expect([...frame.subarray(0, prefixBytes)]).toEqual([
        0,
        0,
        0,
        message.length >> 8,
        message.length & 0xff,
      ]);
      const larger = new Uint8Array(offset + frame.length);
      larger.set(frame, offset);
      expect([...readMessage(larger.subarray(offset))]).toEqual([...message]);
    }),
  );
});

test("every body that is not exactly one valid frame is refused", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1 }),
      fc.nat(),
      fc.uint8Array({ minLength: 1 }),
      (message, cut, more) => {
        const frame = frameOf(message);
        const part = frame.subarray(0, 1 + (cut % (frame.length - 1)));
        expect(() => readMessage(part)).toThrow(
          expect.objectContaining({ reason: "INVALID_ARGUMENT", message: problem }),
        );
        expect(() => readMessage(Buffer.concat([frame, more]))).toThrow(
          expect.objectContaining({ reason: "UNIMPLEMENTED" }),
        );
        const marked = Uint8Array.from(frame);
        marked[0] = 1;
        expect(() => readMessage(marked)).toThrow(
          expect.objectContaining({ reason: "MISSING_GRPC_ENCODING" }),
        );
        marked[0] = 0x82;
        expect([...readMessage(marked)]).toEqual([...message]);
      },
    ),
  );
  expect(() => readMessage(new Uint8Array(0))).toThrow(expect.objectContaining({ reason: "UNIMPLEMENTED" }));
});
