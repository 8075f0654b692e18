import { randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "vitest";
import type { ListenerName } from "#src/auth/policy.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import { isStreamed, listeners, type Message, type RunProtocol, runProtocols } from "./protocols.ts";
import { loggedRequest, type RefusalCase } from "./refusal-case.ts";
import { limits, type RefusalWorld } from "./world.ts";

/** A request for a run that is refused. */
interface RunRefusal {
  readonly reason: Reason;
  readonly what?: string;
  /** The protocols for which the case makes sense; by default all. */
  readonly only?: (protocol: RunProtocol) => boolean;
  readonly authorization?: (world: RefusalWorld) => string | undefined;
  readonly message?: Message;
  readonly headers?: (protocol: RunProtocol) => Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

const isRpc = ({ kind }: RunProtocol) => kind !== "rest";
const isRest = ({ kind }: RunProtocol) => kind === "rest";
const isConnect = ({ kind }: RunProtocol) => kind === "connect";
const isGrpcAlike = ({ kind }: RunProtocol) => kind === "grpc" || kind === "grpc-web";
const withJson = (protocol: RunProtocol) => isRest(protocol) || isConnect(protocol);
const validKey = ({ key }: RefusalWorld) => `Bearer ${key.value}`;
const aRun: Message = { json: { appId: "echo", text: "x" } };
const bytesOf = (text: string): Message => ({ bytes: Buffer.from(text, "latin1") });

const simple: readonly RunRefusal[] = [
  { reason: "MISSING_API_KEY", authorization: () => undefined },
  { reason: "MALFORMED_AUTHORIZATION", authorization: ({ key }) => `Basic ${key.value}` },
  { reason: "INVALID_API_KEY", authorization: ({ key }) => `Bearer ${key.value.slice(0, -1)}` },
  {
    reason: "INVALID_API_KEY",
    what: "not in the store",
    authorization: ({ keyrun }) => `Bearer ${keyrun.unknownKey()}`,
  },
  { reason: "REVOKED_API_KEY", authorization: ({ revokedKey }) => `Bearer ${revokedKey.value}` },
  {
    reason: "APP_NOT_ALLOWED",
    authorization: ({ restrictedKey }) => `Bearer ${restrictedKey.value}`,
    message: { json: { appId: "unreachable", text: "x" } },
  },
  {
    reason: "APP_NOT_ALLOWED",
    what: "an app that does not exist",
    authorization: ({ restrictedKey }) => `Bearer ${restrictedKey.value}`,
    message: { json: { appId: "nowhere", text: "x" } },
  },
  { reason: "EXPIRED_API_KEY", authorization: ({ expiredKey }) => `Bearer ${expiredKey.value}` },
  { reason: "APP_NOT_FOUND", message: { json: { appId: "nowhere", text: "x" } } },
  { reason: "INVALID_ARGUMENT", what: "no text", message: { json: { appId: "echo" } } },
  { reason: "INVALID_ARGUMENT", what: "no message", only: isGrpcAlike, message: bytesOf("\xff\xff") },
  { reason: "INVALID_ARGUMENT", what: "a wrong field", only: withJson, message: bytesOf('{"colour":1}') },
  { reason: "INVALID_JSON", only: withJson, message: bytesOf("{") },
  { reason: "INVALID_JSON", what: "not UTF-8", only: withJson, message: bytesOf('{"text":"\xff"}') },
  {
    reason: "REQUEST_TOO_LARGE",
    message: { json: { appId: "echo", text: "x".repeat(limits.bodyBytes + 1) } },
  },
  { reason: "UNSUPPORTED_MEDIA_TYPE", only: withJson, headers: () => ({ "content-type": "text/plain" }) },
  {
    reason: "UNSUPPORTED_MEDIA_TYPE",
    what: "compressed",
    only: isRest,
    headers: () => ({ "content-encoding": "gzip" }),
  },
  {
    reason: "UNIMPLEMENTED",
    what: "an unknown compression",
    only: isGrpcAlike,
    message: { bytes: Buffer.from("x"), flags: 1 },
    headers: () => ({ "grpc-encoding": "snappy" }),
  },
  {
    reason: "UNIMPLEMENTED",
    what: "an unknown compression",
    only: isConnect,
    headers: (protocol) => ({ [`${isStreamed(protocol) ? "connect-" : ""}content-encoding`]: "snappy" }),
  },
  {
    reason: "MISSING_GRPC_ENCODING",
    only: (protocol) => isGrpcAlike(protocol) || (isConnect(protocol) && isStreamed(protocol)),
    message: { bytes: Buffer.from("x"), flags: 1 },
  },
  { reason: "DEADLINE_EXCEEDED", what: "over at once", only: isRpc, timeoutMs: 0 },
  {
    reason: "INVALID_ARGUMENT",
    what: "a key for repeats",
    only: isStreamed,
    headers: () => ({ "idempotency-key": "one" }),
  },
];

/**
 * Each refusal of a run and of a stream that has not begun, over each protocol of each listener.
 */
export const runCases: readonly RefusalCase[] = listeners.flatMap((listener) =>
  runProtocols[listener].flatMap((protocol) => [
    ...simple
      .filter(({ only = () => true }) => only(protocol))
      .map((refusal) => simpleCase(listener, protocol, refusal)),
    limitedCase(listener, protocol),
    failedCase(listener, protocol),
    refusedCase(listener, protocol),
    lateCase(listener, protocol),
    busyCase(listener, protocol),
    unreachableCase(listener, protocol),
    overloadedCase(listener, protocol),
    ...(isRpc(protocol) ? [deadlineCase(listener, protocol)] : []),
    leftCase(listener, protocol),
    // A stream takes no key for repeats.
    ...(isStreamed(protocol) ? [] : [reusedCase(listener, protocol)]),
    ...(isStreamed(protocol) || isRest(protocol) ? [] : [inUseCase(listener, protocol)]),
    ...(isStreamed(protocol) ? [] : [cancelledCase(listener, protocol)]),
  ]),
);

function simpleCase(listener: ListenerName, protocol: RunProtocol, refusal: RunRefusal): RefusalCase {
  const { reason, what, authorization = validKey, message = aRun, headers, timeoutMs } = refusal;
  const ask = (authorized: string | undefined, requestId: string) =>
    protocol.ask(protocol.method, message, {
      headers: {
        ...headers?.(protocol),
        "x-request-id": requestId,
        ...(authorized !== undefined && { authorization: authorized }),
      },
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  return {
    ...about(listener, protocol, message),
    reason,
    ...(what !== undefined && { what }),
    send: (world, requestId) =>
      protocol.http.exchange(world.url(listener), ask(authorization(world), requestId)),
  };
}

function limitedCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  let key = "";
  return {
    ...about(listener, protocol, aRun),
    reason: "RATE_LIMIT_EXCEEDED",
    async prepare({ keyrun, url }) {
      key = (await keyrun.newKey(await keyrun.newTeam())).value;
      for (let spent = 0; spent < limits.runsOfTheFreePlan; spent += 1) {
        await protocol.http.exchange(url(listener), askToRun(protocol, { appId: "echo", text: "x" }, key));
      }
      return nothing;
    },
    send: ({ url }, requestId) =>
      protocol.http.exchange(
        url(listener),
        askToRun(protocol, { appId: "echo", text: "x" }, key, { requestId }),
      ),
  };
}

function failedCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  return appCase(listener, protocol, { reason: "APP_FAILED", text: "fail" });
}

function refusedCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  return appCase(listener, protocol, { reason: "APP_REFUSED", text: "refuse" });
}

function lateCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  return appCase(listener, protocol, { reason: "APP_TIMEOUT", text: "wait", appTimeoutMs: 1_000 });
}

function deadlineCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  return appCase(listener, protocol, { reason: "DEADLINE_EXCEEDED", text: "wait", timeoutMs: 20 });
}

function appCase(
  listener: ListenerName,
  protocol: RunProtocol,
  how: { reason: Reason; text: string; appTimeoutMs?: number; timeoutMs?: number },
): RefusalCase {
  const { reason, text, appTimeoutMs, timeoutMs } = how;
  const prepared = preparedApp(appTimeoutMs);
  return {
    ...about(listener, protocol, aRun),
    reason,
    prepare: prepared.prepare,
    get request() {
      return about(listener, protocol, { json: { appId: prepared.id() } }).request;
    },
    send: ({ key, url }, requestId) => {
      const options = { requestId, ...(timeoutMs !== undefined && { timeoutMs }) };
      const ask = askToRun(protocol, { appId: prepared.id(), text }, key.value, options);
      return protocol.http.exchange(url(listener), ask);
    },
  };
}

/** Another run holds the app's only slot, and ends after the case. */
function busyCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const prepared = preparedApp();
  return {
    ...about(listener, protocol, aRun),
    reason: "APP_BUSY",
    get request() {
      return about(listener, protocol, { json: { appId: prepared.id() } }).request;
    },
    async prepare(world) {
      await prepared.prepare(world);
      const ask = askToRun(protocol, { appId: prepared.id(), text: "wait" }, world.key.value);
      const holding = protocol.http.exchange(world.url(listener), ask);
      await world.app.waits(1);
      return async () => {
        world.app.release();
        await holding;
      };
    },
    send: ({ key, url }, requestId) =>
      protocol.http.exchange(
        url(listener),
        askToRun(protocol, { appId: prepared.id(), text: "x" }, key.value, { requestId }),
      ),
  };
}

/** Nothing listens where the app should be. */
function unreachableCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const message: Message = { json: { appId: "unreachable", text: "x" } };
  return {
    ...about(listener, protocol, message),
    reason: "APP_UNREACHABLE",
    send: ({ key, url }, requestId) =>
      protocol.http.exchange(
        url(listener),
        askToRun(protocol, { appId: "unreachable", text: "x" }, key.value, { requestId }),
      ),
  };
}

/** The key is a wrong one: the request is refused before anything looks at it. */
function overloadedCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  return {
    ...about(listener, protocol, aRun),
    reason: "OVERLOADED",
    async prepare({ setOverloaded }) {
      setOverloaded(true);
      return async () => setOverloaded(false);
    },
    send: ({ url }, requestId) =>
      protocol.http.exchange(
        url(listener),
        askToRun(protocol, { appId: "echo", text: "x" }, "wrong", { requestId }),
      ),
  };
}

/** The caller disconnects while the app is running. */
function leftCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const prepared = preparedApp();
  return {
    ...about(listener, protocol, aRun),
    reason: "CANCELLED",
    prepare: prepared.prepare,
    get request() {
      return about(listener, protocol, { json: { appId: prepared.id() } }).request;
    },
    async send({ key, url, app }, requestId) {
      const ask = askToRun(protocol, { appId: prepared.id(), text: "wait" }, key.value, { requestId });
      await protocol.http.abandon(url(listener), ask, app.waits(1));
      return undefined;
    },
  };
}

/** The key was sent before, with another text. */
function reusedCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const idempotencyKey = randomUUID();
  const ask = (text: string, { key }: RefusalWorld, requestId?: string) =>
    askToRun(protocol, { appId: "echo", text }, key.value, {
      idempotencyKey,
      ...(requestId !== undefined && { requestId }),
    });
  return {
    ...about(listener, protocol, aRun),
    reason: "IDEMPOTENCY_KEY_REUSED",
    async prepare(world) {
      await protocol.http.exchange(world.url(listener), ask("x", world));
      return nothing;
    },
    send: (world, requestId) => protocol.http.exchange(world.url(listener), ask("another", world, requestId)),
  };
}

/** The run of the key was in the background, and is cancelled. */
function cancelledCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const idempotencyKey = randomUUID();
  const prepared = preparedApp();
  return {
    ...about(listener, protocol, aRun),
    reason: "RUN_CANCELLED",
    get request() {
      return about(listener, protocol, { json: { appId: prepared.id() } }).request;
    },
    async prepare(world) {
      await prepared.prepare(world);
      const post = (path: string, body: object) =>
        fetch(`${world.url("public")}/api/${path}`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${world.key.value}`,
            "content-type": "application/json",
            ...{ prefer: "respond-async", "idempotency-key": idempotencyKey },
          },
          body: JSON.stringify(body),
        });
      const started = await post(`apps/${prepared.id()}/run`, { text: "wait" });
      const { runId } = (await started.json()) as { runId: string };
      await post(`runs/${runId}/cancel`, {});
      return nothing;
    },
    send({ key, url }, requestId) {
      const json = { appId: prepared.id(), text: "wait" };
      return protocol.http.exchange(
        url(listener),
        askToRun(protocol, json, key.value, { requestId, idempotencyKey }),
      );
    },
  };
}

/** The run of the key is under way, and the caller does not wait for its end. */
function inUseCase(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const idempotencyKey = randomUUID();
  const prepared = preparedApp();
  const ask = ({ key }: RefusalWorld, how: { requestId?: string; timeoutMs?: number } = {}) =>
    askToRun(protocol, { appId: prepared.id(), text: "wait" }, key.value, { ...how, idempotencyKey });
  return {
    ...about(listener, protocol, aRun),
    reason: "IDEMPOTENCY_KEY_IN_USE",
    get request() {
      return about(listener, protocol, { json: { appId: prepared.id() } }).request;
    },
    async prepare(world) {
      await prepared.prepare(world);
      const holding = protocol.http.exchange(world.url(listener), ask(world));
      await world.app.waits(1);
      return async () => {
        world.app.release();
        await holding;
      };
    },
    send: (world, requestId) =>
      protocol.http.exchange(world.url(listener), ask(world, { requestId, timeoutMs: 500 })),
  };
}

function preparedApp(timeoutMs?: number) {
  let id = "";
  return {
    id: () => id,
    async prepare({ newApp, app }: RefusalWorld) {
      id = await newApp(timeoutMs);
      await expect.poll(app.waiting).toBe(0);
      return nothing;
    },
  };
}

function askToRun(
  protocol: RunProtocol,
  json: JsonObject,
  key: string,
  how: { requestId?: string; timeoutMs?: number; idempotencyKey?: string } = {},
) {
  const { requestId, timeoutMs, idempotencyKey } = how;
  return protocol.ask(
    protocol.method,
    { json },
    {
      headers: {
        authorization: `Bearer ${key}`,
        ...(requestId !== undefined && { "x-request-id": requestId }),
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(timeoutMs !== undefined && { timeoutMs }),
    },
  );
}

function about(listener: ListenerName, protocol: RunProtocol, message: Message) {
  const { name, entry } = protocol;
  const { method, path } = protocol.ask(protocol.method, message);
  return { listener, protocol: name, entry, request: loggedRequest(method, path) };
}

const nothing = async () => {};
