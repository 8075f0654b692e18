import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { AppSchema, type HttpHeaderSchema } from "#gen/keyrun/v1/app_pb.ts";
import { readNewApp } from "#src/apps/app-fields.ts";
import { Refusal } from "#src/refusal/refusal.ts";

type AppInit = MessageInitShape<typeof AppSchema>;

const echo = { kind: { case: "echo", value: {} } } as const;
const read = (app: AppInit) =>
  readNewApp(create(AppSchema, Object.assign({ id: "shout", backend: echo }, app)), 0);
const onHttp = (url: string, headers: MessageInitShape<typeof HttpHeaderSchema>[] = []): AppInit => ({
  backend: { kind: { case: "http", value: { url, headers } } },
});
const onGrpc = (target: string): AppInit => ({ backend: { kind: { case: "grpc", value: { target } } } });
const withHeader = (name: string, value = "x") => onHttp("http://a.example/", [{ name, value }]);

function refused(app: AppInit): Refusal {
  try {
    read(app);
  } catch (thrown) {
    if (thrown instanceof Refusal && thrown.reason === "INVALID_ARGUMENT") return thrown;
    throw thrown;
  }
  throw new Error("It was taken.");
}

test("an absent app, id or backend is refused by its name", () => {
  expect(() => readNewApp(undefined, 0)).toThrow(expect.objectContaining({ param: "app" }));
  expect(refused({ id: "" }).param).toBe("app.id");
  expect(() => readNewApp(create(AppSchema, { id: "shout" }), 0)).toThrow(
    expect.objectContaining({ param: "app.backend" }),
  );
  expect(refused({ backend: {} }).param).toBe("app.backend");
});

describe("timeout", () => {
  test.each([
    [undefined, 30_000],
    [{ seconds: 600n }, 600_000],
    [{ seconds: 29n, nanos: 999_000_000 }, 29_999],
    [{ nanos: 1_000_000 }, 1],
    [{ nanos: 1 }, 1],
  ])("%o is %i ms", (timeout, ms) => {
    expect(read(timeout ? { timeout } : {}).timeoutMs).toBe(ms);
  });

  test.each([
    {},
    { seconds: -1n },
    { nanos: -1 },
    { seconds: 600n, nanos: 1_000_000 },
    { seconds: 600n, nanos: 1 },
    { seconds: 601n },
    { seconds: 2n ** 62n },
  ])("%o is refused, with the bounds in words", (timeout) => {
    const { param, message } = refused({ timeout });
    expect(param).toBe("app.timeout");
    expect(message).toBe("app.timeout must be more than 0 and at most 600 s.");
  });
});

describe("background timeout", () => {
  test.each([
    [undefined, 600_000],
    [{ seconds: 3_600n }, 3_600_000],
    [{ nanos: 1 }, 1],
  ])("%o is %i ms", (backgroundTimeout, ms) => {
    expect(read(backgroundTimeout ? { backgroundTimeout } : {}).backgroundTimeoutMs).toBe(ms);
  });

  test.each([{}, { seconds: -1n }, { seconds: 3_600n, nanos: 1 }, { seconds: 2n ** 62n }])(
    "%o is refused, with the bounds in words",
    (backgroundTimeout) => {
      const { param, message } = refused({ backgroundTimeout });
      expect(param).toBe("app.background_timeout");
      expect(message).toBe("app.background_timeout must be more than 0 and at most 3600 s.");
    },
  );
});

describe("stream timeout", () => {
  test.each([
    [undefined, 600_000],
    [{ seconds: 3_600n }, 3_600_000],
    [{ nanos: 1 }, 1],
  ])("%o is %i ms", (streamTimeout, ms) => {
    expect(read(streamTimeout ? { streamTimeout } : {}).streamTimeoutMs).toBe(ms);
  });

  test.each([{}, { seconds: -1n }, { seconds: 3_600n, nanos: 1 }, { seconds: 2n ** 62n }])(
    "%o is refused",
    (streamTimeout) => {
      const { param, message } = refused({ streamTimeout });
      expect(param).toBe("app.stream_timeout");
      expect(message).toBe("app.stream_timeout must be more than 0 and at most 3600 s.");
    },
  );
});

describe("url", () => {
  test.each([
    ["http://127.0.0.1:9000/run", "http://127.0.0.1:9000/run"],
    ["HTTPS://App.Example", "https://app.example/"],
    ["http://[::1]:9000/run?tier=gold", "http://[::1]:9000/run?tier=gold"],
  ])("%s is taken", (url, stored) => {
    expect(read(onHttp(url)).backend).toMatchObject({ url: stored });
  });

  test("2048 characters are accepted and one more is refused, counted as the URL is sent", () => {
    const url = "http://a.example/".padEnd(2_048, "x");
    expect(read(onHttp(url)).backend).toMatchObject({ url });
    expect(refused(onHttp(`${url}x`)).message).not.toContain(url);
    expect(refused(onHttp(`http://a.example/${"é".repeat(1_000)}`)).param).toBe("app.backend.http.url");
  });

  test.each([
    "",
    "/run",
    "a.example/run",
    "ftp://a.example/",
    "file:///etc/passwd",
    "http:a.example",
    "http://",
    "http:///run",
    "http://user@a.example/",
    "http://user:pass@a.example/",
    "http://a.example/#",
    "http://a.example/#part",
    "http://a.example:99999/",
    "http://a.example/a b",
    "http://a.ex\tample/",
    "http://a.example\\run",
    " http://a.example/",
  ])("%j is refused, in words that do not hold it", (url) => {
    const { param, message } = refused(onHttp(url));
    expect(param).toBe("app.backend.http.url");
    expect(message).toContain("such as http://127.0.0.1:9000/run");
    if (url.length > 10) expect(message).not.toContain(url);
  });
});

describe("headers", () => {
  test("a name is accepted in any case and kept in lower case; a value is kept as it is", () => {
    const value = `!${"~ ".repeat(2_047)}!`;
    expect(value).toHaveLength(4_096);
    expect(read(withHeader(`X-${"N".repeat(62)}`, value)).backend).toMatchObject({
      headers: [{ name: `x-${"n".repeat(62)}`, value }],
    });
  });

  test.each([
    ["Host"],
    ["Content-Length"],
    ["content-type"],
    ["transfer-encoding"],
    ["connection"],
    ["keep-alive"],
    ["upgrade"],
    ["te"],
    ["trailer"],
    ["proxy-authorization"],
    ["Proxy-Connection"],
    ["accept-encoding"],
    ["expect"],
    ["X-Request-Id"],
    ["X-Keyrun-Deadline-Ms"],
    ["x-keyrun-"],
    [""],
    ["n".repeat(65)],
    ["a b"],
    ["a:"],
    ["a\r\nb"],
    ["ä"],
  ])("the name %j is refused", (name) => {
    expect(refused(withHeader(name)).param).toBe("app.backend.http.headers[0].name");
  });

  test.each([["tea"], ["hostname"], ["x-upgrade"], ["x-keyru"]])("the name %j is not reserved", (name) => {
    expect(read(withHeader(name)).backend).toMatchObject({ headers: [{ name }] });
  });

  test.each([
    ["empty", ""],
    ["with a space before it", " secret"],
    ["with a space after it", "secret "],
    ["of two lines", "secret\r\nX-B: c"],
    ["with a control character", "secret\0"],
    ["that is not ASCII", "sécret"],
    ["of 4097 characters", "secret".padEnd(4_097, "x")],
  ])("a value %s is refused, in words that do not hold it", (_, value) => {
    const { param, message } = refused(withHeader("authorization", value));
    expect(param).toBe("app.backend.http.headers[0].value");
    expect(message).not.toMatch(/s.cret/);
  });

  test("there are at most 16, and none twice", () => {
    const many = Array.from({ length: 17 }, (_, index) => ({ name: `x-${index}`, value: "x" }));
    expect(read(onHttp("http://a.example/", many.slice(1))).backend).toMatchObject({
      headers: { length: 16 },
    });
    expect(refused(onHttp("http://a.example/", many)).param).toBe("app.backend.http.headers");
    const twice = [
      { name: "a", value: "1" },
      { name: "A", value: "2" },
    ];
    expect(refused(onHttp("http://a.example/", twice)).param).toBe("app.backend.http.headers[1].name");
  });
});

describe("target", () => {
  test.each([
    "127.0.0.1:9001",
    "localhost:1",
    "app.internal:65535",
    "my_app-1:443",
    "[::1]:9001",
    "unix:9001",
  ])("%s is taken", (target) => {
    expect(read(onGrpc(target)).backend).toEqual({ kind: "grpc", target, tls: false });
  });

  test.each([
    "",
    "a.example",
    "a.example:",
    ":9001",
    "a.example:0",
    "a.example:65536",
    "a.example:http",
    "unix:/tmp/socket",
    "dns:///a.example:443",
    "http://a.example:80",
    "::1:9001",
    "a b:9001",
    "-a:9001",
    "a:9001,b:9001",
  ])("%j is refused", (target) => {
    expect(refused(onGrpc(target)).param).toBe("app.backend.grpc.target");
  });
});

test("a host is at most 253 characters", () => {
  expect(read(onGrpc(`${"a".repeat(253)}:9001`)).backend).toMatchObject({ kind: "grpc" });
  expect(refused(onGrpc(`${"a".repeat(254)}:9001`)).param).toBe("app.backend.grpc.target");
});

test("teams are at most 1000, each a team's id", () => {
  const teamIds = Array.from({ length: 1_001 }, (_, index) => `t${index}`);
  expect(read({ teamIds: teamIds.slice(1) }).teamIds).toHaveLength(1_000);
  expect(refused({ teamIds }).param).toBe("app.team_ids");
  expect(refused({ teamIds: ["demo", "Not an id"] }).param).toBe("app.team_ids");
});
