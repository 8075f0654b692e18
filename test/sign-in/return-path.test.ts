import * as fc from "fast-check";
import { expect, test } from "vitest";
import { readReturnPath } from "#src/sign-in/sign-in-handler.ts";

const origin = "https://keyrun.example.com";

test.each(["/", "/settings/team/demo/api-keys", "/settings/team/demo/api-keys?revoked=true", "/sign-inner"])(
  "%s is a path to return to",
  (path) => {
    expect(readReturnPath(path, origin)).toBe(path);
  },
);

test.each([
  null,
  undefined,
  "",
  "settings",
  "//evil.example/a",
  "///evil.example",
  "/\\evil.example",
  "/\t/evil.example",
  "/\n/evil.example",
  "https://evil.example/",
  "https://keyrun.example.com/settings",
  "javascript:alert(1)",
  "/.//evil.example",
  "/..//evil.example",
  "/sign-in",
  "/sign-in?return_to=/",
  "/sign-in/callback?code=x",
  "/a/../sign-in",
  `/${"a".repeat(2_000)}`,
])("%j is not a path to return to", (value) => {
  expect(readReturnPath(value, origin)).toBe("/");
});

test("a browser that follows any accepted path stays on this origin", () => {
  const piece = fc.constantFrom(
    "/",
    "\\",
    ".",
    "..",
    "@",
    ":",
    "?",
    "#",
    "%2f",
    "\t",
    "\r",
    "evil.example",
    "a",
    "//",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(piece).map((parts) => `/${parts.join("")}`),
      ),
      (value) => {
        const path = readReturnPath(value, origin);
        expect(new URL(path, origin).origin).toBe(origin);
        expect(path).toMatch(/^\/(?![/\\])/);
        expect(readReturnPath(path, origin)).toBe(path);
      },
    ),
  );
});
