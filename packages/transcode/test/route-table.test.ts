import fc from "fast-check";
import { expect, test } from "vitest";
import { edgeOf, ruleOf, type TestRule } from "./transcoding.ts";

/** Returns the template that a request matches, or the kind of mismatch, with the captures. */
function routed(
  rules: (string | TestRule)[],
  line: string,
): [string, Record<string, string>] | string | string[] {
  const [method = "", target = ""] = line.split(" ");
  const match = edgeOf(...rules).transcoder.match(method, target);
  if (match.kind === "method_not_allowed") return match.allow;
  if (match.kind !== "found") return match.kind;
  return [match.route.binding.template.source, Object.fromEntries(match.route.captures)];
}

test.each([
  ["/v1/*", "/v1/a", true],
  ["/v1/*", "/v1/", false],
  ["/v1/*", "/v1", false],
  ["/v1/*", "/v1/a/b", false],
  ["/v1/*", "/v1/a/", false],
  ["/v1/*/b", "/v1//b", false],
  ["/v1/**", "/v1", true],
  ["/v1/**", "/v1/", true],
  ["/v1/**", "/v1/a/b/c", true],
  ["/v1/**", "/v1/a//c", true],
  ["/v1/**", "/v2/a", false],
  ["/**", "/", true],
  ["/v1/a", "/v1/a/", false],
  ["/v1/a", "//v1/a", false],
  ["/v1/a", "/v1/A", false],
  ["/v1/a%20b", "/v1/a%20b", true],
  ["/v1/a", "/v1/%61", true],
  ["/v1/a", "/v1/%zz", false],
  ["/v1/a%2Fb", "/v1/a%2fb", true],
  ["/v1/a%2Fb", "/v1/a/b", false],
])("the template %s matches the path %s: %s", (template, path, taken) => {
  expect(routed([`GET ${template}`], `GET ${path}`)).toEqual(taken ? [template, {}] : "not_found");
});

test.each(["*", "http://host/v1/a", "", "v1/a"])("a target that is not a path is not found: %s", (target) => {
  expect(routed(["GET /v1/a", "GET /**"], `GET ${target}`)).toBe("not_found");
});

test("`{x}` and `{x=*}` match the same paths", () => {
  for (const path of ["/v1/a", "/v1/", "/v1/a/b"]) {
    const [short, long] = ["{name}", "{name=*}"].map((variable) =>
      routed([`GET /v1/${variable}`], `GET ${path}`),
    );
    expect(Array.isArray(short) ? short[1] : short).toEqual(Array.isArray(long) ? long[1] : long);
  }
});

test.each([
  ["/v1/{name}", "/v1/a%2Fb%20c%25", "a/b c%"],
  ["/v1/{name}", "/v1/%E2%82%AC+~", "€+~"],
  ["/v1/{name=shelves/*}", "/v1/shelves/a%2Fb%20c", "shelves/a%2Fb c"],
  ["/v1/{name=shelves/*}", "/v1/shelves/a%2fb", "shelves/a%2fb"],
  ["/v1/{name=shelves/*/books/*}/notes", "/v1/shelves/1/books/2/notes", "shelves/1/books/2"],
  ["/v1/{name=**}", "/v1/a/b%2Fc/%C3%A9", "a/b%2Fc/é"],
  ["/v1/{name=**}", "/v1", ""],
  ["/v1/{name=files/**}", "/v1/files", "files"],
  ["/v1/{name=files/**}", "/v1/files/a//b/", "files/a//b/"],
  ["/v1/{name=files/**}", "/v1/%66iles/a", "files/a"],
  ["/{name=**}", "/", ""],
])("%s captures from %s: %s", (template, path, value) => {
  expect(routed([`GET ${template}`], `GET ${path}`)).toEqual([template, { name: value }]);
});

test.each(["/v1/%zz", "/v1/%", "/v1/a%2", "/v1/%ff", "/v1/%C3", "/v1/%ED%A0%80", "/v1/é", "/v1/a\u0000"])(
  "a variable that can't be decoded is a bad escape: %s",
  (path) => {
    expect(routed(["GET /v1/{name}"], `GET ${path}`)).toBe("bad_escape");
    expect(routed(["GET /{name=**}"], `GET ${path}`)).toBe("bad_escape");
  },
);

test("an unknown path or method is reported before a bad escape", () => {
  expect(routed(["GET /v1/{name}"], "GET /v2/%zz")).toBe("not_found");
  expect(routed(["GET /v1/{name}"], "POST /v1/%zz")).toEqual(["GET"]);
});

test.each([
  ["/v1:watch", "/v1:watch", {}],
  ["/v1/{name=e/*}:cancel", "/v1/e/a:cancel", { name: "e/a" }],
  ["/v1/{name=e/*}:cancel", "/v1/e/a:b:cancel", { name: "e/a:b" }],
  ["/v1/{name=**}:cancel", "/v1/a/b:cancel", { name: "a/b" }],
  ["/v1/{name=**}:cancel", "/v1:cancel", { name: "" }],
  ["/v1/a/**:go", "/v1/a/b/c:go", {}],
])("the verb of %s is found in %s", (template, path, captures) => {
  expect(routed([`POST ${template}`], `POST ${path}`)).toEqual([template, captures]);
});

test("a colon inside a variable's value does not break routing", () => {
  const rules = ["GET /v1/{name=e/*}", "GET /v1/{name=e/*}:cancel"];
  expect(routed(rules, "GET /v1/e/a:b")).toEqual(["/v1/{name=e/*}", { name: "e/a:b" }]);
  expect(routed(rules, "GET /v1/e/a%3Acancel")).toEqual(["/v1/{name=e/*}", { name: "e/a:cancel" }]);
  expect(routed(rules, "GET /v1/e/a:")).toEqual(["/v1/{name=e/*}", { name: "e/a:" }]);
  expect(routed(rules, "GET /v1/e/a:cancel")).toEqual(["/v1/{name=e/*}:cancel", { name: "e/a" }]);
  expect(routed(rules, "GET /v1/e/:cancel")).toEqual(["/v1/{name=e/*}", { name: "e/:cancel" }]);
});

test("a literal is preferred to a variable, and a variable to `**`, in any order of the rules", () => {
  const rules = ["GET /v1/**", "GET /v1/{name}", "GET /v1/a", "GET /v1/a/**", "GET /v1/{name}/b"];
  for (const each of [rules, rules.toReversed()]) {
    expect(routed(each, "GET /v1/a")).toEqual(["/v1/a", {}]);
    expect(routed(each, "GET /v1/x")).toEqual(["/v1/{name}", { name: "x" }]);
    expect(routed(each, "GET /v1/a/b")).toEqual(["/v1/a/**", {}]);
    expect(routed(each, "GET /v1/x/b")).toEqual(["/v1/{name}/b", { name: "x" }]);
    expect(routed(each, "GET /v1/x/c")).toEqual(["/v1/**", {}]);
  }
});

test("a better path for another method does not hide the path for this method", () => {
  const rules = ["POST /v1/a", "GET /v1/{name}"];
  expect(routed(rules, "GET /v1/a")).toEqual(["/v1/{name}", { name: "a" }]);
  expect(routed(rules, "DELETE /v1/a")).toEqual(["GET", "POST"]);
});

test.each(["GET", "HEAD", "OPTIONS", "TRACE", "post", "PATCH"])(
  "the refusal of %s on a path with POST lists the methods of the path",
  (method) => {
    expect(routed(["POST /v1/a", "DELETE /v1/*"], `${method} /v1/a`)).toEqual(["DELETE", "POST"]);
  },
);

test("every additional binding leads to its method", () => {
  const additionalBindings = [ruleOf("GET /v1/b/{name}"), ruleOf("POST /v1/c *")];
  const rule: TestRule = { rule: { ...ruleOf("GET /v1/a"), additionalBindings } };
  const { transcoder } = edgeOf(rule);
  for (const [method, path] of [
    ["GET", "/v1/a"],
    ["GET", "/v1/b/x"],
    ["POST", "/v1/c"],
  ] as const) {
    const match = transcoder.match(method, path);
    expect(match.kind === "found" && match.route.binding.method.name).toBe("Call0");
  }
  expect(transcoder.bindings.map((each) => each.body.kind)).toEqual(["none", "none", "whole"]);
});

test("a custom rule matches its own method, and `*` every method without a rule", () => {
  const rules = ["HEAD /v1/a", "* /v1/b", "GET /v1/b"];
  expect(routed(rules, "HEAD /v1/a")).toEqual(["/v1/a", {}]);
  expect(routed(rules, "GET /v1/a")).toEqual(["HEAD"]);
  const { transcoder } = edgeOf(...rules);
  for (const [method, httpMethod] of [
    ["GET", "GET"],
    ["PURGE", "*"],
    ["OPTIONS", "*"],
  ] as const) {
    const match = transcoder.match(method, "/v1/b");
    expect(match.kind === "found" && match.route.binding.httpMethod).toBe(httpMethod);
  }
});

test("the query is everything after the first question mark, not decoded", () => {
  const match = edgeOf("GET /v1/a").transcoder.match("GET", "/v1/a?b=%zz?c#d");
  expect(match.kind === "found" && match.route.query).toBe("b=%zz?c#d");
});

const word = fc.constantFrom<string[]>("a", "b", "c");
const segment = fc.oneof(word, fc.constant("*"));
const template = fc
  .record({
    segments: fc.array(segment, { minLength: 1, maxLength: 4 }),
    rest: fc.boolean(),
    verb: fc.option(word, { nil: undefined }),
  })
  .map(({ segments, rest, verb }) => ({ segments: rest ? [...segments, "**"] : segments, verb }));

/**
 * A direct reading of the rules: every template is a regular expression, and the best match by kind
 * of segment wins.
 */
function bestByOracle(templates: readonly { segments: string[]; verb: string | undefined }[], path: string) {
  const rank = (text: string) => (text === "**" ? 2 : text === "*" ? 1 : 0);
  const candidates = templates.filter(({ segments, verb }) => {
    const parts = segments.map((each) => (each === "**" ? "(/.*)?" : each === "*" ? "/[^/]+" : `/${each}`));
    return new RegExp(`^${parts.join("")}${verb === undefined ? "" : `:${verb}`}$`).test(path);
  });
  const keys = candidates.map(
    ({ segments, verb }) => `${verb === undefined ? 1 : 0}${segments.map(rank).join("")}`,
  );
  const least = [...keys].sort()[0];
  return least === undefined ? undefined : candidates[keys.indexOf(least)];
}

test("random templates match as by a direct reading of the rules", () => {
  const templates = fc.uniqueArray(template, { maxLength: 12, selector: (each) => JSON.stringify(each) });
  const part = fc.constantFrom("a", "b", "c", "x", "", "a:b", "x:c", ":a");
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => `/${parts.join("/")}`);
  const seen = { found: 0, notFound: 0 };
  fc.assert(
    fc.property(templates, fc.array(path, { minLength: 5, maxLength: 20 }), (all, paths) => {
      const source = ({ segments, verb }: (typeof all)[number]) =>
        `/${segments.join("/")}${verb === undefined ? "" : `:${verb}`}`;
      const { transcoder } = edgeOf(...all.map((each) => `GET ${source(each)}`));
      for (const each of paths) {
        const match = transcoder.match("GET", each);
        const best = bestByOracle(all, each);
        expect(match.kind === "found" ? match.route.binding.template.source : undefined).toBe(
          best && source(best),
        );
        seen[best ? "found" : "notFound"]++;
      }
    }),
    { numRuns: 300 },
  );
  expect(Math.min(seen.found, seen.notFound)).toBeGreaterThan(100);
});
