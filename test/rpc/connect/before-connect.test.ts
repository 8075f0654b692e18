import type { DescMethodUnary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { reasons } from "#src/refusal/reasons.ts";
import { ConformanceService, conformanceService } from "../../conformance/conformance-service.ts";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { serveRpcs } from "../../harness/rpc-listener.ts";

const keyrun = closedAtEnd(await startKeyrun());
const conformance = await serveRpcs([{ service: ConformanceService, implementation: conformanceService }]);

afterAll(async () => {
  conformance.listener.destroy();
});

async function errorOf(call: Promise<unknown>): Promise<ConnectError> {
  try {
    await call;
  } catch (thrown) {
    return ConnectError.from(thrown);
  }
  return expect.fail();
}

test("a Connect client reads why its unknown method was refused", async () => {
  const transport = createConnectTransport({ baseUrl: keyrun.publicUrl, httpVersion: "1.1" });
  const { runApp } = RunService.method;
  const walk: DescMethodUnary = { ...runApp, name: "Walk" };
  const error = await errorOf(transport.unary(walk, undefined, undefined, undefined, {}));
  expect([error.code, error.rawMessage]).toEqual([Code.Unimplemented, reasons.UNIMPLEMENTED.words]);
  expect(error.details).toEqual([]);
});

test("a Connect client reads why its type was refused", async () => {
  const asText: Interceptor = (next) => (request) => {
    request.header.set("content-type", "text/plain");
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: keyrun.publicUrl,
    httpVersion: "1.1",
    interceptors: [asText],
  });
  const error = await errorOf(createClient(RunService, transport).runApp({}));
  expect(error.code).toBe(Code.Unknown);
  expect(error.rawMessage).toContain("`application/json`");
  expect(error.details).toEqual([]);
});

const get = "/connectrpc.conformance.v1.ConformanceService/IdempotentUnary";

test.each([
  ["without a type", {}],
  ["with a type, though it has no body", { "content-type": "text/plain" }],
])("a Connect GET %s is served", async (_, headers) => {
  const query = "?connect=v1&encoding=json&message=%7B%7D";
  const response = await fetch(`${conformance.url}${get}${query}`, { headers });
  expect(response.status).toBe(200);
  expect(await response.json()).toHaveProperty("payload");
});

test.each(["", "?connect=v1&encoding=xml&message=%7B%7D"])(
  "a Connect GET with the query %j is asked for its encoding, and not for a Content-Type",
  async (query) => {
    const response = await fetch(`${conformance.url}${get}${query}`);
    expect(response.status).toBe(415);
    const { code, message } = (await response.json()) as { code: string; message: string };
    expect(code).toBe("unknown");
    expect(message).toContain("encoding=json");
    expect(message).not.toContain("Content-Type");
  },
);

test.each([
  ["application/connect+json", "connect-content-encoding"],
  ["application/grpc-web+json", "grpc-encoding"],
])(
  "a compressed message of %s whose compression has no name is told to name it in %s",
  async (type, header) => {
    const { parent, name } = KeyService.method.watchKeys;
    const response = await fetch(`${keyrun.internalUrl}/${parent.typeName}/${name}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${keyrun.serviceToken}`,
        "content-type": type,
        "connect-protocol-version": "1",
      },
      body: Uint8Array.of(1, 0, 0, 0, 1, 0),
    });
    const told = decodeURIComponent(await response.text());
    expect(/no ([a-z-]+) was sent/.exec(told)?.[1]).toBe(header);
  },
);
