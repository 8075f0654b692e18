import { describe, expect, test } from "vitest";
import { statusOf } from "#src/http/refusal-response.ts";
import { createRedaction } from "#src/log/redaction.ts";
import { fail } from "#src/refusal/refusal.ts";
import { createCleanWords } from "#src/run/app-words.ts";

describe("the words of an app", () => {
  const clean = createCleanWords(createRedaction("svc", []), []);

  test("have at most 1,000 characters, and none that controls or misleads a terminal", () => {
    expect(clean("a\u0000b\r\nc\u001b[31m\u202ed\u0085e")).toBe("a b c [31m d e");
    expect(clean("é".repeat(1_000))).toBe("é".repeat(1_000));
    expect(clean("é".repeat(1_001))).toBe(`${"é".repeat(999)}…`);
    expect([...(clean("😀".repeat(2_000)) ?? "")]).toHaveLength(1_000);
  });

  test("are nothing where nothing is left", () => {
    expect(clean("")).toBeUndefined();
    expect(clean(" \u0000\n ")).toBeUndefined();
  });

  test("that a caller gets have at most 1,500 bytes, so that every client of gRPC takes their head", () => {
    for (const unit of ["a", "%", '"', "é", "漢", "😀", "\ud800"]) {
      const { message } = fail("APP_REFUSED", { problem: clean(unit.repeat(1_000)) ?? "" });
      expect(Buffer.byteLength(JSON.stringify(message)) - 2).toBeLessThanOrEqual(1_500);
      const head = statusOf(fail("APP_REFUSED", { problem: message }));
      expect(head.join("").length).toBeLessThan(7_200);
    }
    expect(fail("APP_REFUSED", { problem: "a".repeat(1_000) }).message).toHaveLength(1_000);
  });
});

describe("of the words of an app with secrets of the operator's", () => {
  const headers = {
    env: { name: "x-env", value: "test" },
    region: { name: "x-region", value: "europe" },
    model: { name: "x-model", value: "reasoning-model-of-the-house" },
    author: { name: "x-author", value: "somebody" },
    short: { name: "x-api-key", value: "a" },
    bearer: { name: "authorization", value: "Bearer hunter2!" },
    key: { name: "x-api-key", value: "abc-123" },
    token: { name: "x_gitlab_token", value: "opensesame" },
    cookie: { name: "cookie", value: "theme=dark; session=s3ss10n-id" },
    made: { name: "x-tenant", value: "9f86d081884c7d659a2f" },
  };
  const clean = createCleanWords(createRedaction("svc", []), Object.values(headers));

  test.each([
    "The latest model needs a test run.",
    "A bearer token is missing: send Authorization: Bearer <token>.",
    "Authentication by Bearer authentication is needed; a Bearer token, too.",
    "Europe and europe are regions, and so is a dark theme for somebody.",
    "reasoning-model-of-the-house is a model. So are pre-europe-1 and europeans.",
    "Rechtsschutzversicherungsgesellschaftenvertreter fehlt, RINDFLEISCHETIKETTIERUNGSUEBERWACHUNGSGESETZ auch.",
    "Rinderkennzeichnungsfleischetikettierungsüberwachungsaufgabenübertragungsgesetz",
    "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch is no town that we know.",
    "opensesames is another word, and so is reopensesame.",
    `The digest ${"0123456789abcdef".repeat(4)} is wrong.`,
    "日本語の長い言葉、とても長い",
  ])("stays: %s", (words) => {
    expect(clean(words)).toBe(words);
  });

  test.each([
    ["a credential with its scheme", "Bearer hunter2! is wrong", "[redacted] is wrong"],
    ["a credential alone", "no user has hunter2!", "no user has [redacted]"],
    ["another bearer token", "got Bearer abcdef.ghi", "got Bearer [redacted]"],
    ["a key", "x-api-key=abc-123,", "x-api-key=[redacted],"],
    ["a token of letters alone", 'say "opensesame"', 'say "[redacted]"'],
    ["a cookie's value", "session s3ss10n-id is over", "session [redacted] is over"],
    ["what looks like a secret", "no tenant 9f86d081884c7d659a2f", "no tenant [redacted]"],
    ["a secret as a URL writes it", "?key=hunter2!&x=Bearer%20hunter2!", "?key=[redacted]&x=[redacted]"],
  ])("goes: %s", (_, words, left) => {
    expect(clean(words)).toBe(left);
  });
});
