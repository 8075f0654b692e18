import { createHash, createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";

const [newest, older] = [Buffer.alloc(32, 1), Buffer.alloc(40, 2)];

test("a version is 8 hex digits of a digest of the secret, newest first", () => {
  const secrets = createServiceSecrets([newest, older]);
  const version = createHash("sha256")
    .update("keyrun-secret-version:")
    .update(newest)
    .digest("hex")
    .slice(0, 8);
  expect(secrets.newestVersion).toBe(version);
  expect(secrets.versions[0]).toBe(version);
  expect(secrets.versions).toHaveLength(2);
});

test("a digest is HMAC-SHA-256 under the named secret, and undefined where there is no such secret", () => {
  const secrets = createServiceSecrets([newest, older]);
  const expected = createHmac("sha256", older).update("text").digest();
  expect(secrets.digest(secrets.versions[1] ?? "", "text")?.equals(expected)).toBe(true);
  expect(secrets.digest("00000000", "text")).toBeUndefined();
});

test("no secret at all is refused", () => {
  expect(() => createServiceSecrets([])).toThrow(/KEYRUN_SECRET/);
});
