import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { ListenerName } from "#src/auth/policy.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import {
  isStreamed,
  listeners,
  type Message,
  type RunProtocol,
  runProtocols,
} from "../../harness/protocols.ts";
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
  /** The text for an app of its own on the scripted backend, instead of a message. */
  readonly text?: string;
  readonly appTimeoutMs?: number;
  /** Set if it has a key for repeats, which no other case has. */
  readonly isKeyed?: true;
  /** What comes before it. `ask` sends the same with another text. Resolves with what undoes it. */
  readonly before?: (world: RefusalWorld, own: Own) => Promise<unknown>;
  /** Set if the caller disconnects while the app is running. */
  readonly leaves?: true;
}

/** What a case has for itself. */
interface Own {
  appId: string;
  authorization: string | undefined;
  readonly idempotencyKey: string;
  readonly ask: (text: string) => Promise<unknown>;
}

const isRpc = ({ kind }: RunProtocol) => kind !== "rest";
const isRest = ({ kind }: RunProtocol) => kind === "rest";
const isConnect = ({ kind }: RunProtocol) => kind === "connect";
const isUnary = (protocol: RunProtocol) => !isStreamed(protocol);
const isGrpcAlike = ({ kind }: RunProtocol) => kind === "grpc" || kind === "grpc-web";
const withJson = (protocol: RunProtocol) => isRest(protocol) || isConnect(protocol);
const validKey = ({ key }: RefusalWorld) => `Bearer ${key.value}`;
const aRun: Message = { json: { appId: "echo", text: "x" } };
const bytesOf = (text: string): Message => ({ bytes: Buffer.from(text, "latin1") });

const refusals: readonly RunRefusal[] = [
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
  { reason: "APP_UNREACHABLE", message: { json: { appId: "unreachable", text: "x" } } },
  { reason: "APP_FAILED", text: "fail" },
  { reason: "APP_REFUSED", text: "refuse" },
  { reason: "APP_TIMEOUT", text: "wait", appTimeoutMs: 250 },
  { reason: "DEADLINE_EXCEEDED", only: isRpc, text: "wait", timeoutMs: 20 },
  { reason: "CANCELLED", text: "wait", leaves: true },
  { reason: "APP_BUSY", what: "its only slot is taken", text: "x", before: hold },
  {
    reason: "RATE_LIMIT_EXCEEDED",
    async before({ keyrun }, own) {
      own.authorization = `Bearer ${(await keyrun.newKey(await keyrun.newTeam())).value}`;
      for (let spent = 0; spent < limits.runsOfTheFreePlan; spent += 1) await own.ask("x");
    },
  },
  {
    reason: "QUOTA_EXCEEDED",
    async before({ keyrun }, own) {
      own.authorization = `Bearer ${(await keyrun.newKey(await keyrun.newTeam(Plan.PRO))).value}`;
      await own.ask("x");
    },
  },
  {
    reason: "OVERLOADED",
    what: "before anything looks at the key",
    authorization: () => "Bearer wrong",
    async before({ setOverloaded }) {
      setOverloaded(true);
      return () => setOverloaded(false);
    },
  },
  {
    reason: "IDEMPOTENCY_KEY_REUSED",
    only: isUnary,
    isKeyed: true,
    async before(_, { ask }) {
      await ask("another");
    },
  },
  {
    reason: "IDEMPOTENCY_KEY_IN_USE",
    what: "for longer than the caller waits",
    only: (protocol) => isUnary(protocol) && isRpc(protocol),
    isKeyed: true,
    text: "wait",
    timeoutMs: 500,
    before: hold,
  },
  { reason: "RUN_CANCELLED", only: isUnary, isKeyed: true, text: "wait", before: runAndCancel },
];

/** The same runs, until the case is over. */
async function hold({ app }: RefusalWorld, { ask }: Own) {
  const holding = ask("wait");
  await app.waits(1);
  return async () => {
    app.release();
    await holding;
  };
}

/** The run of the key was in the background, and is cancelled. */
async function runAndCancel({ url, key }: RefusalWorld, { appId, idempotencyKey }: Own) {
  const post = (path: string, body: object) =>
    fetch(`${url("public")}/api/${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key.value}`,
        "content-type": "application/json",
        prefer: "respond-async",
        "idempotency-key": idempotencyKey,
      },
      body: JSON.stringify(body),
    });
  const started = await post(`apps/${appId}/run`, { text: "wait" });
  const { runId } = (await started.json()) as { runId: string };
  await post(`runs/${runId}/cancel`, {});
}

/**
 * Each refusal of a run and of a stream that has not begun, over each protocol of each listener.
 */
export const runCases: readonly RefusalCase[] = listeners.flatMap((listener) =>
  runProtocols[listener].flatMap((protocol) =>
    refusals
      .filter(({ only = () => true }) => only(protocol))
      .map((refusal) => runCase(listener, protocol, refusal)),
  ),
);

function runCase(listener: ListenerName, protocol: RunProtocol, refusal: RunRefusal): RefusalCase {
  const { reason, what, authorization = validKey, message = aRun, headers, text, isKeyed, before } = refusal;
  const idempotencyKey = randomUUID();
  const own = { appId: "", authorization: undefined as string | undefined };
  const ask = (world: RefusalWorld, sent: Message, how: { requestId?: string; timeoutMs?: number }) => {
    const authorized = own.authorization ?? authorization(world);
    return protocol.ask(protocol.method, sent, {
      headers: {
        ...headers?.(protocol),
        ...(authorized !== undefined && { authorization: authorized }),
        ...(how.requestId !== undefined && { "x-request-id": how.requestId }),
        ...(isKeyed && { "idempotency-key": idempotencyKey }),
      },
      ...(how.timeoutMs !== undefined && { timeoutMs: how.timeoutMs }),
    });
  };
  const runOf = (text: string): Message => ({ json: { appId: own.appId || "echo", text } });
  const { method, path } = protocol.ask(protocol.method, message);
  return {
    reason,
    listener,
    protocol: protocol.name,
    entry: protocol.entry,
    ...(what !== undefined && { what }),
    request: loggedRequest(method, path),
    ...((before ?? text) !== undefined && {
      async prepare(world) {
        if (text !== undefined) {
          own.appId = await world.newApp(refusal.appTimeoutMs);
          await expect.poll(world.app.waiting).toBe(0);
        }
        const sendBefore = (text: string) =>
          protocol.http.exchange(world.url(listener), ask(world, runOf(text), {}));
        const undo = await before?.(world, Object.assign(own, { idempotencyKey, ask: sendBefore }));
        return async () => void (typeof undo === "function" && (await undo()));
      },
    }),
    async send(world, requestId) {
      const { timeoutMs } = refusal;
      const asked = ask(world, text === undefined ? message : runOf(text), {
        requestId,
        ...(timeoutMs !== undefined && { timeoutMs }),
      });
      if (!refusal.leaves) return protocol.http.exchange(world.url(listener), asked);
      await protocol.http.abandon(world.url(listener), asked, world.app.waits(1));
      return undefined;
    },
  };
}
