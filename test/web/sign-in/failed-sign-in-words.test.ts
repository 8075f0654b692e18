import { expect, test } from "vitest";
import { failedSignInWords } from "../../../web/sign-in/failed-sign-in-words.ts";

test("each way a sign-in fails has words of its own", () => {
  const errors = [
    "access_denied",
    "expired",
    "email_not_verified",
    "email_taken",
    "provider_unavailable",
    "failed",
  ];
  const texts = errors.map((error) => failedSignInWords(error).text);
  expect(new Set(texts).size).toBe(errors.length);
});

test("an unknown error is never shown itself", () => {
  for (const error of ["", "<b>call 555</b>", "__proto__", "constructor"]) {
    expect(failedSignInWords(error)).toEqual(failedSignInWords("failed"));
  }
});

test("a person who needs the operator is not asked to try again", () => {
  expect(failedSignInWords("email_taken").retry).toBe(false);
  expect(failedSignInWords("expired").retry).toBe(true);
});
