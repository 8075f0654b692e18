import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createHmacSha256 } from "#src/keys/service-secrets.ts";

test("it equals node's own HMAC-SHA-256 for every secret and text, whatever was hashed before", () => {
  const bytes = fc.uint8Array({ minLength: 1, maxLength: 130 });
  const texts = fc.array(fc.string({ unit: "binary", maxLength: 140 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(bytes, texts, (secret, each) => {
      const hmac = createHmacSha256(Buffer.from(secret));
      for (const text of each) {
        expect(hmac(text)).toEqual(createHmac("sha256", secret).update(text).digest());
      }
    }),
  );
});

test("a returned buffer is the caller's own: the next text does not change it", () => {
  const hmac = createHmacSha256(Buffer.alloc(32, 1));
  const first = hmac("first");
  const copy = Buffer.from(first);
  hmac("second");
  expect(first).toEqual(copy);
});
