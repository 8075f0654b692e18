import { describe, expect, test } from "vitest";
import { readSettings } from "#src/settings/read-settings.ts";

const oidc = {
  KEYRUN_PUBLIC_URL: "https://keyrun.example.com",
  KEYRUN_OIDC_ISSUER: "https://id.example/tenant",
  KEYRUN_OIDC_CLIENT_ID: "keyrun",
  KEYRUN_OIDC_CLIENT_SECRET: "not-a-secret-of-anyone",
};

const read = (env: Record<string, string>) => readSettings(env, () => "");

describe("sign-in settings", () => {
  test("OpenID Connect is read whole, the issuer to the letter", () => {
    expect(read(oidc)).toMatchObject({
      ok: {
        publicUrl: "https://keyrun.example.com",
        oidc: {
          issuer: "https://id.example/tenant",
          clientId: "keyrun",
          clientSecret: "not-a-secret-of-anyone",
        },
      },
    });
    expect(read({ ...oidc, KEYRUN_OIDC_ISSUER: "https://id.example/" })).toMatchObject({
      ok: { oidc: { issuer: "https://id.example/" } },
    });
  });

  test.each(Object.keys(oidc))(
    "without %s the rest of OpenID Connect is refused, and it is named",
    (name) => {
      const { [name as keyof typeof oidc]: _, ...rest } = oidc;
      const outcome = read(rest);
      expect(outcome).toMatchObject({ problems: [expect.stringMatching(`^${name} must be set too`)] });
    },
  );

  test("a public URL alone is fine, and is kept as an origin", () => {
    expect(read({ KEYRUN_PUBLIC_URL: "https://Keyrun.Example.com:443/" })).toMatchObject({
      ok: { publicUrl: "https://keyrun.example.com", oidc: undefined },
    });
    expect(read({ KEYRUN_PUBLIC_URL: "http://localhost:8080" })).toMatchObject({
      ok: { publicUrl: "http://localhost:8080" },
    });
  });

  test.each([
    ["KEYRUN_PUBLIC_URL", "http://keyrun.example.com"],
    ["KEYRUN_PUBLIC_URL", "https://keyrun.example.com/below"],
    ["KEYRUN_PUBLIC_URL", "https://ada:secret@keyrun.example.com"],
    ["KEYRUN_PUBLIC_URL", "https://keyrun.example.com/?a=b"],
    ["KEYRUN_PUBLIC_URL", "keys.example.org"],
    ["KEYRUN_PUBLIC_URL", "ftp://keyrun.example.com"],
    ["KEYRUN_OIDC_ISSUER", "http://id.example"],
    ["KEYRUN_OIDC_ISSUER", "http://127.0.0.1.id.example"],
    ["KEYRUN_OIDC_ISSUER", "https://id.example/?tenant=a"],
    ["KEYRUN_OIDC_ISSUER", "https://id.example/#a"],
  ])("%s can't be %s", (name, value) => {
    const outcome = read({ ...oidc, [name]: value });
    expect(outcome).toMatchObject({ problems: [expect.stringMatching(`^${name} must be `)] });
    expect(JSON.stringify(outcome)).not.toContain(value);
  });
});
