import { describe, expect, test } from "vitest";
import { createSessionCookie } from "#src/sign-in/cookies.ts";
import { screenAddress } from "#src/sign-in/screen-address.ts";

const https = screenAddress({
  publicUrl: "https://keyrun.example.com",
  bound: { host: "0.0.0.0", port: 8080 },
});
const loopback = screenAddress({ publicUrl: undefined, bound: { host: "127.0.0.1", port: 8080 } });

describe("the session's cookie", () => {
  test("over HTTPS has a name and attributes that only this host can set, and only over HTTPS", () => {
    expect(createSessionCookie(https).write("T")).toBe(
      "__Host-keyrun=T; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure",
    );
  });

  test("on loopback has the port in its name, because ports share cookies", () => {
    expect(createSessionCookie(loopback).write("T")).toBe(
      "keyrun-8080=T; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax",
    );
  });

  test("is removed with the same name and attributes", () => {
    expect(createSessionCookie(https).clear()).toBe(
      "__Host-keyrun=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure",
    );
  });

  test.each([
    [undefined, { kind: "missing" }],
    ["", { kind: "missing" }],
    ["other=1; keyrun-80=2; xkeyrun-8080=3; keyrun-8080", { kind: "missing" }],
    ["a=1; keyrun-8080=T; b=2", { kind: "found", value: "T" }],
    ["keyrun-8080=a=b", { kind: "found", value: "a=b" }],
    ["keyrun-8080=T;keyrun-8080=T", { kind: "ambiguous" }],
    ["keyrun-8080=; a=1; keyrun-8080=T", { kind: "ambiguous" }],
  ])("from %j reads %j", (header, found) => {
    expect(createSessionCookie(loopback).read(header)).toEqual(found);
  });

  test("without __Host- in its name is not read over HTTPS", () => {
    expect(createSessionCookie(https).read("keyrun=T; keyrun-443=T")).toEqual({ kind: "missing" });
  });
});
