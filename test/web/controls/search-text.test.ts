import { expect, test } from "vitest";
import { bounds as serverBounds } from "#src/bounds.ts";
import { bounds } from "../../../web/bounds.ts";
import { searchText } from "../../../web/controls/search-text.ts";

const keyId = "7k3f0m9x2a4c6e8g1j5n7p9q";
const secret = "x".repeat(49);

test.each([
  `svc_${keyId}.${secret}`,
  `  svc_${keyId}.${secret}\n`,
  `Authorization: Bearer svc_${keyId}.${secret}`,
  `export KEYRUN_API_KEY="svc_${keyId}.${secret}"`,
  `longprefix12_${keyId}.${secret}`,
  // Cut off, or typed up to its first letter of the secret.
  `svc_${keyId}.x`,
  `svc_${keyId}.`,
])("of a whole key only the id is searched for, whatever is around it: case %#", (text) => {
  expect(searchText(text)).toBe(keyId);
});

test.each(["ci-deploy", "", " two words", keyId, `svc_${keyId}`, "svc_7k3f…x9Qz", "v1.2", "مفتاح"])(
  "%s is searched for as it is",
  (text) => {
    expect(searchText(text)).toBe(text);
  },
);

test("a search is cut to the characters and the length that the server accepts", () => {
  expect(searchText("safe\u202etxt\u0000")).toBe("safetxt");
  expect(searchText("😀".repeat(bounds.keyQueryCodePointsMax + 1))).toBe(
    "😀".repeat(bounds.keyQueryCodePointsMax),
  );
  expect(bounds.keyQueryCodePointsMax).toBe(serverBounds.labelCodePointsMax);
});
