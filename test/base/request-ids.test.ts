import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createRequestIds } from "#src/base/request-ids.ts";

const version4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("every id is a UUID of version 4, and none comes twice, past the end of what is drawn at once too", () => {
  const newRequestId = createRequestIds(randomBytes);
  const ids = Array.from({ length: 1_000 }, newRequestId);
  for (const id of ids) expect(id).toMatch(version4);
  expect(new Set(ids).size).toBe(ids.length);
});

test("each of the 122 bits that an id has to itself comes from the source", () => {
  for (const [byte, expected] of [
    [0x00, "00000000-0000-4000-8000-000000000000"],
    [0xff, "ffffffff-ffff-4fff-bfff-ffffffffffff"],
  ] as const) {
    expect(createRequestIds((bytes) => new Uint8Array(bytes).fill(byte))()).toBe(expected);
  }
});
