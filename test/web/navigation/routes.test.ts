import fc from "fast-check";
import { expect, test } from "vitest";
import { returnPath, routeOf, settingsPath, signInPath } from "../../../web/navigation/routes.ts";

test("each address has its page", () => {
  expect(routeOf("/")).toEqual({ page: "home" });
  expect(routeOf(settingsPath("demo"))).toEqual({ page: "api-keys", teamId: "demo" });
  expect(routeOf("/sign-in")).toEqual({ page: "sign-in" });
  expect(routeOf("/sign-in/link")).toEqual({ page: "sign-in-link" });
  for (const path of [
    "/settings",
    "/settings/team//api-keys",
    "/settings/team/demo/api-keys/",
    "/sign-in/",
  ]) {
    expect(routeOf(path)).toEqual({ page: "unknown" });
  }
});

test("a deep link survives signing in", () => {
  const path = "/settings/team/demo/api-keys";
  expect(returnPath(`https://keyrun.example${signInPath(path)}`)).toBe(path);
  expect(returnPath("https://keyrun.example/sign-in")).toBe("/");
});

test("whatever `return_to` holds, signing in leads to a path of the same origin", () => {
  const origin = "https://keyrun.example";
  const piece = fc.constantFrom(
    "/",
    "\\",
    "//",
    "evil.example",
    "https:",
    "javascript:alert(1)",
    "@",
    ".",
    "..",
    "\t",
    "?a",
    "#b",
  );
  const target = fc.oneof(
    fc.string(),
    fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join("")),
  );
  fc.assert(
    fc.property(target, (text) => {
      const path = returnPath(`${origin}/sign-in?${new URLSearchParams({ return_to: text })}`);
      expect(path.startsWith("/")).toBe(true);
      expect(new URL(path, origin).origin).toBe(origin);
    }),
    { numRuns: 2_000, examples: [["/.//evil.example"], ["/\\evil.example"], ["//evil.example"]] },
  );
});
