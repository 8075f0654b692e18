import type { DescMethod, JsonObject } from "@bufbuild/protobuf";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { type ListenerName, leakBounds } from "#src/auth/policy.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import { serviceTokenBounds } from "#src/service-tokens/service-token-store.ts";
import type { Ask } from "../../harness/exchange.ts";
import {
  listeners,
  type Message,
  type Protocol,
  pathOf,
  rpcProtocols,
  secretQuery,
} from "../../harness/protocols.ts";
import { loggedRequest, type RefusalCase } from "./refusal-case.ts";
import type { RefusalWorld } from "./world.ts";

/** A refused call over each RPC protocol that is no valid run. */
interface RpcRefusal {
  readonly reason: Reason;
  readonly what?: string;
  readonly listener: ListenerName;
  readonly method: DescMethod;
  readonly json?: JsonObject | ((prepared: Prepared) => JsonObject);
  readonly message?: Message;
  readonly only?: (protocol: Protocol) => boolean;
  readonly headers?: (world: RefusalWorld) => Readonly<Record<string, string>>;
  readonly host?: string;
  readonly at?: "oidcKeyrun";
  /** Changes the request into one that no client would send. */
  readonly change?: (ask: Ask) => Ask;
  readonly prepare?: (world: RefusalWorld) => Promise<Prepared>;
  /** Set if the caller disconnects once the answer has begun. */
  readonly leaves?: true;
  readonly undo?: (world: RefusalWorld) => Promise<unknown>;
}

type Prepared = Readonly<Record<string, string>>;

const asService = ({ keyrun }: RefusalWorld) => ({ authorization: `Bearer ${keyrun.serviceToken}` });
const asMember = ({ cookie }: RefusalWorld) => ({ cookie, "sec-fetch-site": "same-origin" });
const asStranger = ({ keyrun, cookie }: RefusalWorld) => ({
  cookie: `${cookie.split("=")[0]}=${keyrun.unknownKey()}`,
  "sec-fetch-site": "same-origin",
});
const uuid = "6f1f4f7e-5d0a-4a37-8f1c-0d3f3a2d9b11";
const isGrpcAlike = ({ kind }: Protocol) => kind === "grpc" || kind === "grpc-web";
const isConnect = ({ kind }: Protocol) => kind === "connect";

type Row = Omit<RpcRefusal, "listener">;

/** A call without a credential, unless `more` has one. */
const call = (reason: Reason, method: DescMethod, more: Partial<Row> = {}): Row => ({
  reason,
  method,
  ...more,
});
/** A call with the service token. */
const service = (
  reason: Reason,
  method: DescMethod,
  json: NonNullable<RpcRefusal["json"]> = {},
  more: Partial<Row> = {},
): Row => call(reason, method, { headers: asService, json, ...more });
/** The same with the ids that were prepared for it. */
const prepared = (
  reason: Reason,
  method: DescMethod,
  prepare: NonNullable<RpcRefusal["prepare"]>,
  more: object = {},
): Row => service(reason, method, (ids) => ({ ...ids, ...more }), { prepare });
const bearing = (value: (world: RefusalWorld) => string) => (world: RefusalWorld) => ({
  authorization: `Bearer ${value(world)}`,
});

const newTeam = async ({ keyrun }: RefusalWorld) => ({ teamId: await keyrun.newTeam() });
const revoked = async ({ revokedKey: { teamId, id } }: RefusalWorld) => ({ teamId, keyId: id });
const unknownValue = async ({ keyrun }: RefusalWorld) => ({ value: keyrun.unknownKey() });
const cutValue = async ({ key }: RefusalWorld) => ({ value: key.value.slice(0, -1) });

async function teamWithKey(world: RefusalWorld) {
  const { teamId } = await newTeam(world);
  await world.keyrun.newKey(teamId);
  return { teamId };
}

async function teamWithApp(world: RefusalWorld) {
  const { teamId } = await newTeam(world);
  const backend = { kind: { case: "echo" as const, value: {} } };
  await world.keyrun.apps.createApp({ app: { id: `for-${teamId}`, backend, teamIds: [teamId] } });
  return { teamId };
}

async function teamAtItsLimit(world: RefusalWorld) {
  const { teamId } = await newTeam(world);
  for (let made = 0; made < world.keyrun.config.keysPerTeamMax; made += 1) await world.keyrun.newKey(teamId);
  return { teamId };
}

async function teamWithRequest(world: RefusalWorld) {
  const { teamId } = await newTeam(world);
  await world.keyrun.keys.createKey({ teamId, requestId: uuid });
  return { teamId };
}

async function allTokens({ keyrun }: RefusalWorld) {
  const { serviceTokens } = await keyrun.serviceTokens.listServiceTokens({ pageSize: 100 });
  const made = serviceTokens.filter(({ id }) => id !== "local").length;
  for (let n = made; n < serviceTokenBounds.acceptedMax; n++)
    await keyrun.newServiceToken(ServiceRole.VERIFY);
  return {};
}

async function overload({ setOverloaded }: RefusalWorld) {
  setOverloaded(true);
  return {};
}

async function withdrawPreview({ keyrun }: RefusalWorld) {
  await keyrun.teams.setPreviewAccess({ email: "owner@localhost", granted: false });
  return {};
}

const { runApp, streamApp, getRun, cancelRun } = RunService.method;
const { createTeam, deleteTeam, getTeam, grantRequests } = TeamService.method;
const { createApp, deleteApp } = AppService.method;
const { createKey, listKeys, revokeKey, revokeLeakedKey, rotateKey, updateKey, verifyKey, watchKeys } =
  KeyService.method;
const { createServiceToken, revokeServiceToken } = ServiceTokenService.method;
const { createSignInLink, getSession } = SessionService.method;

const nowhere = { teamId: "nowhere" };
const verifyRole = { role: "SERVICE_ROLE_VERIFY" };

/** Calls of internal services, on the internal listener. */
const ofServices: readonly Row[] = [
  ...[getTeam, watchKeys].flatMap((method): Row[] => [
    { reason: "MISSING_CREDENTIAL", what: method.name, method },
    { reason: "INVALID_CREDENTIAL", what: method.name, method, headers: bearing(({ key }) => key.value) },
    service("TEAM_NOT_FOUND", method, nowhere, { what: method.name }),
    service("INVALID_ARGUMENT", method, {}, { what: `${method.name} without a team` }),
  ]),
  service("TEAM_EXISTS", createTeam, { team: { id: "demo", plan: "PLAN_FREE" } }),
  service("TEAM_HAS_NO_QUOTA", grantRequests, { teamId: "demo", requests: "5" }),
  prepared("TEAM_HAS_KEYS", deleteTeam, teamWithKey),
  prepared("TEAM_HAS_APPS", deleteTeam, teamWithApp),
  service("APP_EXISTS", createApp, { app: { id: "echo", backend: { echo: {} } } }),
  service("APP_NOT_FOUND", deleteApp, { appId: "nowhere" }, { what: "DeleteApp" }),
  service("KEY_NOT_FOUND", revokeKey, { teamId: "demo", keyId: "nowhere" }),
  prepared("KEY_LIMIT_REACHED", createKey, teamAtItsLimit),
  prepared("KEY_ENDED", updateKey, revoked, { updateMask: "expireTime", expireTime: "2030-01-01T00:00:00Z" }),
  prepared("KEY_NOT_ROTATABLE", rotateKey, revoked),
  prepared("REQUEST_ID_USED", createKey, teamWithRequest, { requestId: uuid }),
  ...[createKey, watchKeys].flatMap((method): Row[] => [
    service(
      "SERVICE_ROLE_REQUIRED",
      method,
      { teamId: "demo" },
      {
        what: method.name,
        headers: bearing(({ verifyToken }) => verifyToken),
      },
    ),
    service("SERVICE_ROLE_REQUIRED", method, nowhere, {
      what: `${method.name}, for another team`,
      headers: bearing(({ manageToken }) => manageToken),
    }),
  ]),
  service("SERVICE_TOKEN_EXISTS", createServiceToken, { name: "manager", ...verifyRole }),
  service("SERVICE_TOKEN_NOT_FOUND", revokeServiceToken, { serviceTokenId: "nowhere" }),
  service("SERVICE_TOKEN_OF_SETTINGS", revokeServiceToken, { serviceTokenId: "local" }),
  prepared("SERVICE_TOKEN_LIMIT_REACHED", createServiceToken, allTokens, { name: "one-more", ...verifyRole }),
  service(
    "OVERLOADED",
    verifyKey,
    {},
    {
      what: "VerifyKey, once the service token was right",
      prepare: overload,
      undo: async ({ setOverloaded }) => setOverloaded(false),
    },
  ),
  service("REQUEST_TOO_LARGE", watchKeys, { teamId: "x".repeat(5_000) }, { what: "WatchKeys" }),
  service(
    "MISSING_GRPC_ENCODING",
    watchKeys,
    {},
    {
      what: "WatchKeys",
      message: { bytes: Buffer.from("x"), flags: 1 },
    },
  ),
  service("CANCELLED", watchKeys, { teamId: "demo" }, { what: "WatchKeys", leaves: true }),
  {
    reason: "NOT_FOUND",
    what: "health of no service",
    method: Health.method.check,
    json: { service: "nowhere" },
  },
  {
    reason: "LOCAL_SIGN_IN_OFF",
    method: createSignInLink,
    at: "oidcKeyrun",
    headers: bearing(({ oidcKeyrun }) => oidcKeyrun.serviceToken),
  },
  { reason: "MISSING_CREDENTIAL", what: "a session's method", method: getSession },
];

/** Calls of members, on the public listener. */
const ofMembers: readonly Row[] = [
  ...[listKeys, watchKeys].flatMap((method): Row[] =>
    [
      { reason: "MISDIRECTED_REQUEST" as const, headers: asMember, host: "evil.example" },
      { reason: "MISSING_CREDENTIAL" as const },
      { reason: "INVALID_CREDENTIAL" as const, headers: asStranger },
      {
        reason: "CROSS_SITE_REQUEST" as const,
        headers: (world: RefusalWorld) => ({ ...asMember(world), "sec-fetch-site": "cross-site" }),
      },
      {
        reason: "TEAM_NOT_FOUND" as const,
        headers: asMember,
        prepare: newTeam,
        json: (ids: Prepared) => ids,
      },
      {
        reason: "PREVIEW_REQUIRED" as const,
        headers: asMember,
        json: { teamId: "demo" },
        prepare: withdrawPreview,
        undo: ({ keyrun }: RefusalWorld) =>
          keyrun.teams.setPreviewAccess({ email: "owner@localhost", granted: true }),
      },
    ].map((row) => ({ ...row, what: method.name, method })),
  ),
  { reason: "UNIMPLEMENTED", what: "a service's method", method: getTeam },
  { reason: "UNIMPLEMENTED", what: "health", method: Health.method.watch },
  {
    reason: "UNIMPLEMENTED",
    what: "reflection",
    method: ServerReflection.method.serverReflectionInfo,
    // Over HTTP/1.1 a conversation is refused before it is read.
    only: ({ name }) => !name.includes("HTTP/1.1"),
  },
];

const ofType = (type: string) => () => ({ "content-type": type });

/** Calls whose request has the wrong form or names nothing, on both listeners. */
const ofForm: readonly Row[] = [
  ...[getRun, cancelRun].map(
    (method): Row => ({
      reason: "RUN_NOT_FOUND",
      what: method.name,
      method,
      json: { runId: "run_3kd09vbn2m8t5xq7w1zs6hcf" },
      headers: bearing(({ key }) => key.value),
    }),
  ),
  ...[runApp, streamApp].flatMap((method): Row[] => [
    { reason: "METHOD_NOT_ALLOWED", what: method.name, method, change: (ask) => ({ ...ask, method: "PUT" }) },
    call("UNSUPPORTED_MEDIA_TYPE", method, {
      what: `${method.name}, no RPC`,
      only: isConnect,
      headers: ofType("text/html"),
    }),
    call("UNSUPPORTED_MEDIA_TYPE", method, {
      what: `${method.name}, gRPC-Web as text`,
      only: ({ kind }) => kind === "grpc-web",
      headers: ofType("application/grpc-web-text"),
    }),
    call("UNIMPLEMENTED", method, {
      what: `${method.name} without a message`,
      only: isGrpcAlike,
      headers: bearing(({ key }) => key.value),
      change: (ask) => ({ ...ask, body: "" }),
    }),
  ]),
  ...[watchKeys, streamApp].map((method) =>
    call("UNSUPPORTED_MEDIA_TYPE", method, {
      what: `${method.name} as a unary call`,
      only: isConnect,
      headers: (world) => ({ ...asMember(world), "content-type": "application/json" }),
    }),
  ),
  call("UNSUPPORTED_MEDIA_TYPE", runApp, {
    what: "RunApp as a stream",
    only: isConnect,
    headers: ofType("application/connect+json"),
  }),
  call("UNIMPLEMENTED", runApp, {
    what: "an unknown method",
    only: isGrpcAlike,
    change: (ask) => ({ ...ask, path: `/keyrun.v1.RunService/Walk?q=${secretQuery}` }),
  }),
];

const report = (reason: Reason, what: string, more: Partial<Row> = {}): Row =>
  call(reason, revokeLeakedKey, { what, json: (ids) => ids, ...more });

/** Calls of anyone, on the public listener. */
const ofAnyone: readonly Row[] = [
  report("INVALID_ARGUMENT", "a report without a key"),
  report("INVALID_ARGUMENT", "the report of a cut key", { prepare: cutValue }),
  report("KEY_NOT_FOUND", "the report of an unknown key", { prepare: unknownValue }),
  report("REQUEST_TOO_LARGE", "a long report", { json: { value: "a".repeat(leakBounds.reportBytesMax) } }),
];

export const rpcCases: readonly RefusalCase[] = [
  ...ofServices.map((refusal) => ({ ...refusal, listener: "internal" as const })),
  ...ofMembers.map((refusal) => ({ ...refusal, listener: "public" as const })),
  ...ofAnyone.map((refusal) => ({ ...refusal, listener: "public" as const })),
  ...listeners.flatMap((listener) => ofForm.map((refusal) => ({ ...refusal, listener }))),
].flatMap((refusal: RpcRefusal) =>
  rpcProtocols.filter(refusal.only ?? (() => true)).map((protocol) => rpcCase(protocol, refusal)),
);

function rpcCase(protocol: Protocol, refusal: RpcRefusal): RefusalCase {
  const {
    reason,
    what,
    listener,
    at,
    method,
    json = {},
    message,
    headers,
    host,
    change = (ask) => ask,
  } = refusal;
  let prepared: Prepared = {};
  const askWith = (more: Readonly<Record<string, string>>) => {
    const made = message ?? { json: typeof json === "function" ? json(prepared) : json };
    const ask = protocol.ask(method, made, { headers: more });
    return change({ ...ask, ...(host !== undefined && { host }) });
  };
  const { method: verb, path } = change({ method: "POST", path: pathOf(method), headers: {} });
  return {
    reason,
    ...(what !== undefined && { what }),
    listener,
    protocol: protocol.name,
    ...(at !== undefined && { at }),
    entry: protocol.entry,
    request: loggedRequest(verb, path),
    async prepare(world) {
      prepared = (await refusal.prepare?.(world)) ?? {};
      return async () => void (await refusal.undo?.(world));
    },
    async send(world, requestId) {
      const url = world.url(listener, at);
      const ask = askWith({ ...headers?.(world), "x-request-id": requestId });
      if (!refusal.leaves) return protocol.http.exchange(url, ask);
      await protocol.http.abandon(url, ask, "begun");
      return undefined;
    },
  };
}
