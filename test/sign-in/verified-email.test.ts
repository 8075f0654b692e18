import { describe, expect, test } from "vitest";
import { type Claims, verifiedEmail } from "#src/sign-in/verified-email.ts";

const email = "Ada@Example.com";
const found = { email: "ada@example.com" };
const strict = { assumesVerified: false };
const assuming = { assumesVerified: true };

describe("an e-mail counts, in lower case,", () => {
  test.each<[string, Claims[]]>([
    ["that the ID token vouches for", [{ email, email_verified: true }]],
    ["that it vouches for by a text, as Cognito and Apple do", [{ email, email_verified: "true" }]],
    ["that userinfo alone vouches for, as with Okta", [{ email }, { email, email_verified: true }]],
    ["that userinfo alone has, as with Authelia", [{}, { email, email_verified: true }]],
    ["that both write in another case", [{ email }, { email: email.toUpperCase(), email_verified: "true" }]],
    ["that the ID token vouches for, if userinfo adds nothing", [{ email, email_verified: true }, {}]],
  ])("%s", (_, answers) => {
    expect(verifiedEmail(answers, strict)).toEqual(found);
    expect(verifiedEmail(answers, assuming)).toEqual(found);
  });

  test.each<[string, Claims[]]>([
    ["in either answer", [{ email }, { email }]],
    ["in userinfo, which is not there", [{ email }]],
    ["beside a `true` that is about no e-mail", [{ email_verified: true }, { email }]],
  ])("of which nothing is said %s, only if the operator vouches for the issuer", (_, answers) => {
    expect(verifiedEmail(answers, strict)).toEqual({ problem: "email_verified_unsaid" });
    expect(verifiedEmail(answers, assuming)).toEqual(found);
  });
});

test.each<[string, Claims[], string]>([
  ["that is missing", [{}, {}], "email_missing"],
  ["that is null", [{ email: null, email_verified: true }], "email_missing"],
  ["that is none", [{ email: "ada", email_verified: true }], "email_malformed"],
  ["that is no text", [{ email: [email], email_verified: true }], "email_malformed"],
  [
    "that userinfo names another for",
    [{ email }, { email: "b@b.org", email_verified: true }],
    "email_differs",
  ],
  [
    "with a false in the ID token",
    [
      { email, email_verified: false },
      { email, email_verified: true },
    ],
    "email_not_verified",
  ],
  [
    "with a false in userinfo",
    [
      { email, email_verified: true },
      { email, email_verified: false },
    ],
    "email_not_verified",
  ],
  [
    "with a false that is about no e-mail",
    [{ email_verified: false }, { email, email_verified: true }],
    "email_not_verified",
  ],
  ["with a text for false", [{ email, email_verified: "false" }], "email_not_verified"],
  ["with another text", [{ email, email_verified: "True!" }], "email_not_verified"],
  ["with a number", [{ email, email_verified: 1 }], "email_not_verified"],
  ["with null", [{ email, email_verified: null }], "email_not_verified"],
])("an e-mail %s never counts, whatever the operator has set", (_, answers, problem) => {
  expect(verifiedEmail(answers, strict)).toEqual({ problem });
  expect(verifiedEmail(answers, assuming)).toEqual({ problem });
});
