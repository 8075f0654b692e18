import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { credentials, makeGenericClientConstructor, status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  Health,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "#gen/grpc/health/v1/health_pb.ts";
import { createHealth } from "#src/rpc/health.ts";
import { createReadiness, type SettableReadiness } from "#src/server/readiness.ts";
import { type ConnectH2cServer, rpcProtocols, serveConnectH2c } from "./connect-h2c.ts";

const served = "keyrun.v1.RunService";
const watchersMax = 3;

let readiness: SettableReadiness;
/** How many listeners the service has added and not removed. */
let listening: number;
let server: ConnectH2cServer;

beforeEach(async () => {
  readiness = createReadiness();
  listening = 0;
  const counted = {
    ready: readiness.ready,
    onChange(listener: () => void) {
      listening++;
      const leave = readiness.onChange(listener);
      return () => {
        listening--;
        leave();
      };
    },
  };
  const health = createHealth({ serviceNames: [served], readiness: counted, watchersMax });
  server = await serveConnectH2c([{ service: Health, implementation: health }]);
});

afterEach(() => server.close());

describe.each(rpcProtocols)("over %s", (protocol) => {
  test("the server and each service are SERVING while the process is ready, and only then", async () => {
    const client = createClient(Health, server.transport(protocol));
    for (const service of ["", served]) {
      expect((await client.check({ service })).status).toBe(ServingStatus.NOT_SERVING);
    }
    readiness.set(true);
    for (const service of ["", served]) {
      expect((await client.check({ service })).status).toBe(ServingStatus.SERVING);
    }
    const { statuses } = await client.list({});
    expect(Object.entries(statuses).map(([name, { status }]) => [name, status])).toEqual([
      ["", ServingStatus.SERVING],
      [served, ServingStatus.SERVING],
    ]);
  });

  test("a check of a service that isn't served is NOT_FOUND", async () => {
    const client = createClient(Health, server.transport(protocol));
    const refused = await client.check({ service: "keyrun.v1.Nope" }).catch(ConnectError.from);
    expect(refused).toMatchObject({ code: Code.NotFound });
  });

  test("a watch sends the status at once and then every change, and ends when its caller disconnects", async () => {
    const client = createClient(Health, server.transport(protocol));
    const caller = new AbortController();
    const watch = client.watch({ service: served }, { signal: caller.signal })[Symbol.asyncIterator]();
    const next = async () => (await watch.next()).value?.status;
    expect(await next()).toBe(ServingStatus.NOT_SERVING);
    readiness.set(true);
    expect(await next()).toBe(ServingStatus.SERVING);
    readiness.set(false, "draining");
    expect(await next()).toBe(ServingStatus.NOT_SERVING);
    expect(listening).toBe(1);
    caller.abort();
    await expect(next()).rejects.toMatchObject({ code: Code.Canceled });
    await expect.poll(() => listening).toBe(0);
  });

  test("a watch of a service that isn't served is SERVICE_UNKNOWN, and stays open without repeating it", async () => {
    const client = createClient(Health, server.transport(protocol));
    const caller = new AbortController();
    const watch = client
      .watch({ service: "keyrun.v1.Nope" }, { signal: caller.signal })
      [Symbol.asyncIterator]();
    expect((await watch.next()).value?.status).toBe(ServingStatus.SERVICE_UNKNOWN);
    const further = watch.next();
    further.catch(() => {});
    readiness.set(true);
    // Another watch gets the change, so this one has had the chance too.
    const other = client.watch({ service: "" }, { signal: caller.signal })[Symbol.asyncIterator]();
    expect((await other.next()).value?.status).toBe(ServingStatus.SERVING);
    expect(listening).toBe(2);
    caller.abort();
    await expect(further).rejects.toMatchObject({ code: Code.Canceled });
  });

  test("watches past the bound are refused, and one that ends makes room", async () => {
    const client = createClient(Health, server.transport(protocol));
    const callers = Array.from({ length: watchersMax }, () => new AbortController());
    for (const { signal } of callers) {
      await client.watch({}, { signal })[Symbol.asyncIterator]().next();
    }
    const refused = client.watch({})[Symbol.asyncIterator]();
    await expect(refused.next()).rejects.toMatchObject({ code: Code.Unavailable });
    expect(listening).toBe(watchersMax);
    callers[0]?.abort();
    await expect.poll(() => listening).toBe(watchersMax - 1);
    const last = new AbortController();
    const admitted = client.watch({}, { signal: last.signal })[Symbol.asyncIterator]();
    expect((await admitted.next()).value?.status).toBe(ServingStatus.NOT_SERVING);
    for (const caller of [...callers, last]) caller.abort();
    await expect.poll(() => listening).toBe(0);
  });
});

test("a watcher that reads slowly gets the newest status, and changes in between cost it nothing", async () => {
  const health = createHealth({ serviceNames: [], readiness, watchersMax });
  const caller = new AbortController();
  const context = { signal: caller.signal } as Parameters<typeof health.watch>[1];
  const request = { $typeName: HealthCheckRequestSchema.typeName, service: "" } as const;
  const watch = health.watch(request, context)[Symbol.asyncIterator]();
  expect((await watch.next()).value).toEqual({ status: ServingStatus.NOT_SERVING });
  for (let change = 0; change < 1001; change++) readiness.set(!readiness.ready());
  expect((await watch.next()).value).toEqual({ status: ServingStatus.SERVING });
  const ended = watch.next();
  caller.abort();
  expect((await ended).done).toBe(true);
});

test("grpc-js, an independent client, can check and watch, and reads refusals", async () => {
  const method = (name: "Check" | "Watch", responseStream: boolean) => ({
    path: `/grpc.health.v1.Health/${name}`,
    requestStream: false,
    responseStream,
    requestSerialize: (service: string) =>
      Buffer.from(
        toBinary(HealthCheckRequestSchema, { $typeName: HealthCheckRequestSchema.typeName, service }),
      ),
    requestDeserialize: (bytes: Buffer) => fromBinary(HealthCheckRequestSchema, bytes).service,
    responseSerialize: (response: HealthCheckResponse) =>
      Buffer.from(toBinary(HealthCheckResponseSchema, response)),
    responseDeserialize: (bytes: Buffer) => fromBinary(HealthCheckResponseSchema, bytes),
  });
  const Client = makeGenericClientConstructor(
    { check: method("Check", false), watch: method("Watch", true) },
    "Health",
  );
  const client = new Client(server.authority, credentials.createInsecure());
  const check = (service: string) =>
    new Promise((resolve, reject) => {
      client.check?.(service, (error: Error | null, response: HealthCheckResponse) =>
        error ? reject(error) : resolve(response.status),
      );
    });
  expect(await check(served)).toBe(ServingStatus.NOT_SERVING);
  await expect(check("keyrun.v1.Nope")).rejects.toMatchObject({ code: status.NOT_FOUND });

  const seen: ServingStatus[] = [];
  const call = client.watch?.(served);
  const ended = new Promise<{ code: number }>((resolve) => call.on("error", resolve));
  call.on("data", (response: HealthCheckResponse) => seen.push(response.status));
  await expect.poll(() => seen).toEqual([ServingStatus.NOT_SERVING]);
  readiness.set(true);
  await expect.poll(() => seen).toEqual([ServingStatus.NOT_SERVING, ServingStatus.SERVING]);
  call.cancel();
  expect((await ended).code).toBe(status.CANCELLED);
  await expect.poll(() => listening).toBe(0);
  client.close();
});
