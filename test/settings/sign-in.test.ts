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

  test("what is set for an issuer is read, and by default the issuer decides and must vouch for e-mails", () => {
    expect(read(oidc)).toMatchObject({
      ok: { oidc: { clientAuthMethod: undefined, assumeEmailVerified: false } },
    });
    const more = {
      KEYRUN_OIDC_CLIENT_AUTH_METHOD: "client_secret_post",
      KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED: "true",
    };
    expect(read({ ...oidc, ...more })).toMatchObject({
      ok: { oidc: { clientAuthMethod: "client_secret_post", assumeEmailVerified: true } },
    });
    expect(read(more)).toMatchObject({
      problems: [
        "KEYRUN_OIDC_ISSUER must be set where KEYRUN_OIDC_CLIENT_AUTH_METHOD is, or that removed.",
        "KEYRUN_OIDC_ISSUER must be set where KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED is true, or that removed.",
      ],
    });
  });

  test.each(["common", "organizations", "consumers"])(
    "the issuer of every tenant (%s) can't have its e-mails taken unverified",
    (tenant) => {
      const env = { ...oidc, KEYRUN_OIDC_ISSUER: `https://login.microsoftonline.com/${tenant}/v2.0` };
      expect(read(env)).toHaveProperty("ok");
      const assumed = read({ ...env, KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED: "true" });
      expect(assumed).toMatchObject({
        problems: [expect.stringMatching(/^KEYRUN_OIDC_ISSUER must name one tenant/)],
      });
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
    // Read as a host, a port and a path.
    ["KEYRUN_OIDC_ISSUER", "https://ada:12/secret@id.example"],
    ["KEYRUN_OIDC_ISSUER", "http://127.0.0.1.id.example"],
    ["KEYRUN_OIDC_ISSUER", "https://id.example/?tenant=a"],
    ["KEYRUN_OIDC_ISSUER", "https://id.example/#a"],
  ])("%s can't be %s", (name, value) => {
    const outcome = read({ ...oidc, [name]: value });
    expect(outcome).toMatchObject({ problems: [expect.stringMatching(`^${name} must be `)] });
    expect(JSON.stringify(outcome)).not.toContain(value);
  });
});
