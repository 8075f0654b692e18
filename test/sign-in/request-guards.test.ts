import { describe, expect, test } from "vitest";
import { screenAddress, signInMode } from "#src/sign-in/screen-address.ts";
import { isOwnHost, isSameOrigin } from "#src/sign-in/sign-in-handler.ts";

const bound = { host: "127.0.0.1", port: 8080 };
const loopback = screenAddress({ publicUrl: undefined, bound });
const https = screenAddress({ publicUrl: "https://keyrun.example.com", bound });
const lookup = (headers: Record<string, string>) => (name: string) => headers[name];

describe("the hosts that the screen accepts", () => {
  test.each(["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:8080"])(
    "%s on loopback",
    (host) => {
      expect(isOwnHost(lookup({ host }), loopback)).toBe(true);
      expect(isOwnHost(lookup({ ":authority": host }), loopback)).toBe(true);
    },
  );

  test.each([
    "localhost",
    "localhost:8081",
    "127.0.0.2:8080",
    "evil.example:8080",
    "localhost.evil.example:8080",
    "127.0.0.1:8080.evil.example",
    "keyrun.example.com",
    "",
  ])("not %j on loopback", (host) => {
    expect(isOwnHost(lookup({ host }), loopback)).toBe(false);
  });

  test("with a public URL are only its own, with and without the port of HTTPS", () => {
    for (const host of ["keyrun.example.com", "Keyrun.Example.com:443"]) {
      expect(isOwnHost(lookup({ host }), https)).toBe(true);
    }
    for (const host of [
      "keyrun.example.com:80",
      "localhost:8080",
      "127.0.0.1:8080",
      "x.keyrun.example.com",
    ]) {
      expect(isOwnHost(lookup({ host }), https)).toBe(false);
    }
  });

  test("must all be ours if a request names two, and must not be missing", () => {
    expect(isOwnHost(lookup({ host: "localhost:8080", ":authority": "evil.example" }), loopback)).toBe(false);
    expect(isOwnHost(lookup({ host: "evil.example", ":authority": "localhost:8080" }), loopback)).toBe(false);
    expect(isOwnHost(lookup({}), loopback)).toBe(false);
  });
});

describe("a request from the screen itself", () => {
  const host = "localhost:8080";

  test("is one that the browser calls same-origin, whatever its other headers are", () => {
    expect(isSameOrigin(lookup({ host, "sec-fetch-site": "same-origin" }), loopback)).toBe(true);
    for (const site of ["same-site", "cross-site", "none", "same-origin, same-origin", ""]) {
      const origin = "http://localhost:8080";
      expect(isSameOrigin(lookup({ host, origin, "sec-fetch-site": site }), loopback)).toBe(false);
    }
  });

  test("has exactly its host's origin, if the browser sends no Sec-Fetch-Site", () => {
    expect(isSameOrigin(lookup({ host, origin: "http://localhost:8080" }), loopback)).toBe(true);
    const others = [
      "http://127.0.0.1:8080",
      "http://localhost:8081",
      "https://localhost:8080",
      "http://localhost:8080/",
      "null",
      "",
    ];
    for (const origin of others) expect(isSameOrigin(lookup({ host, origin }), loopback)).toBe(false);
    expect(isSameOrigin(lookup({ host }), loopback)).toBe(false);
    expect(isSameOrigin(lookup({ origin: "http://localhost:8080" }), loopback)).toBe(false);
    expect(
      isSameOrigin(lookup({ host: "keyrun.example.com:443", origin: "https://keyrun.example.com" }), https),
    ).toBe(true);
  });
});

describe("people sign in", () => {
  const oidc = { issuer: "https://id.example", clientId: "k", clientSecret: "s" };
  test.each([
    ["by a link on the loopback", { host: "127.0.0.1", publicUrl: undefined, oidc: undefined }, "local"],
    ["by a link on IPv6's", { host: "::1", publicUrl: "http://[::1]:8080", oidc: undefined }, "local"],
    ["not by a link elsewhere", { host: "0.0.0.0", publicUrl: undefined, oidc: undefined }, "off"],
    [
      "not by a link behind a proxy",
      { host: "127.0.0.1", publicUrl: "https://a.example", oidc: undefined },
      "off",
    ],
    [
      "not by a link on MongoDB, which several instances may share",
      { host: "127.0.0.1", publicUrl: undefined, oidc: undefined, mongodbUri: "mongodb://127.0.0.1" },
      "off",
    ],
    ["with an issuer anywhere", { host: "0.0.0.0", publicUrl: "https://a.example", oidc }, "oidc"],
    [
      "with an issuer on the loopback",
      { host: "127.0.0.1", publicUrl: "http://localhost:8080", oidc },
      "oidc",
    ],
  ])("%s", (_, config, mode) => {
    expect(signInMode({ mongodbUri: undefined, ...config })).toBe(mode);
  });
});
