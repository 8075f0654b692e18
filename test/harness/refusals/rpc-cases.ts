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
import type { Ask } from "./exchange.ts";
import { listeners, type Message, type Protocol, pathOf, rpcProtocols, secretQuery } from "./protocols.ts";
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

const newTeam = async ({ keyrun }: RefusalWorld) => ({ teamId: await keyrun.newTeam() });

const { runApp, streamApp, getRun, cancelRun } = RunService.method;
const { createTeam, getTeam } = TeamService.method;
const { createKey, listKeys, revokeKey, revokeLeakedKey, rotateKey, updateKey, watchKeys } =
  KeyService.method;
const { createServiceToken, revokeServiceToken } = ServiceTokenService.method;

/** Calls of internal services, on the internal listener. */
const ofServices: readonly Omit<RpcRefusal, "listener">[] = [
  ...[getTeam, watchKeys].flatMap((method): Omit<RpcRefusal, "listener">[] => [
    { reason: "MISSING_CREDENTIAL", what: method.name, method },
    {
      reason: "INVALID_CREDENTIAL",
      what: method.name,
      method,
      headers: ({ key }) => ({ authorization: `Bearer ${key.value}` }),
    },
    {
      reason: "TEAM_NOT_FOUND",
      what: method.name,
      method,
      headers: asService,
      json: { teamId: "nowhere" },
    },
    { reason: "INVALID_ARGUMENT", what: `${method.name} without a team`, method, headers: asService },
  ]),
  {
    reason: "TEAM_EXISTS",
    method: createTeam,
    headers: asService,
    json: { team: { id: "demo", plan: "PLAN_FREE" } },
  },
  {
    reason: "TEAM_HAS_KEYS",
    method: TeamService.method.deleteTeam,
    headers: asService,
    prepare: async ({ keyrun }) => ({ teamId: (await keyrun.newKey(await keyrun.newTeam())).teamId }),
    json: ({ teamId = "" }) => ({ teamId }),
  },
  {
    reason: "TEAM_HAS_APPS",
    method: TeamService.method.deleteTeam,
    headers: asService,
    prepare: async ({ keyrun }) => {
      const teamId = await keyrun.newTeam();
      const backend = { kind: { case: "echo" as const, value: {} } };
      await keyrun.apps.createApp({ app: { id: `for-${teamId}`, backend, teamIds: [teamId] } });
      return { teamId };
    },
    json: ({ teamId = "" }) => ({ teamId }),
  },
  {
    reason: "APP_EXISTS",
    method: AppService.method.createApp,
    headers: asService,
    json: { app: { id: "echo", backend: { echo: {} } } },
  },
  {
    reason: "APP_NOT_FOUND",
    what: "DeleteApp",
    method: AppService.method.deleteApp,
    headers: asService,
    json: { appId: "nowhere" },
  },
  {
    reason: "KEY_NOT_FOUND",
    method: revokeKey,
    headers: asService,
    json: { teamId: "demo", keyId: "nowhere" },
  },
  {
    reason: "KEY_LIMIT_REACHED",
    method: createKey,
    headers: asService,
    async prepare(world) {
      const { teamId } = await newTeam(world);
      for (let made = 0; made < world.keyrun.config.keysPerTeamMax; made += 1)
        await world.keyrun.newKey(teamId);
      return { teamId };
    },
    json: ({ teamId = "" }) => ({ teamId }),
  },
  {
    reason: "KEY_ENDED",
    method: updateKey,
    headers: asService,
    json: ({ teamId = "", keyId = "" }) => ({
      ...{ teamId, keyId, updateMask: "expireTime", expireTime: "2030-01-01T00:00:00Z" },
    }),
    prepare: async ({ revokedKey: { teamId, id } }) => ({ teamId, keyId: id }),
  },
  {
    reason: "KEY_NOT_ROTATABLE",
    method: rotateKey,
    headers: asService,
    json: ({ teamId = "", keyId = "" }) => ({ teamId, keyId }),
    prepare: async ({ revokedKey: { teamId, id } }) => ({ teamId, keyId: id }),
  },
  {
    reason: "REQUEST_ID_USED",
    method: createKey,
    headers: asService,
    async prepare(world) {
      const { teamId } = await newTeam(world);
      await world.keyrun.keys.createKey({ teamId, requestId: uuid });
      return { teamId };
    },
    json: ({ teamId = "" }) => ({ teamId, requestId: uuid }),
  },
  ...[createKey, watchKeys].map(
    (method): Omit<RpcRefusal, "listener"> => ({
      reason: "SERVICE_ROLE_REQUIRED",
      what: method.name,
      method,
      headers: ({ verifyToken }) => ({ authorization: `Bearer ${verifyToken}` }),
      json: { teamId: "demo" },
    }),
  ),
  ...[createKey, watchKeys].map(
    (method): Omit<RpcRefusal, "listener"> => ({
      reason: "SERVICE_ROLE_REQUIRED",
      what: `${method.name}, for another team`,
      method,
      headers: ({ manageToken }) => ({ authorization: `Bearer ${manageToken}` }),
      json: { teamId: "nowhere" },
    }),
  ),
  {
    reason: "SERVICE_TOKEN_EXISTS",
    method: createServiceToken,
    headers: asService,
    json: { name: "manager", role: "SERVICE_ROLE_VERIFY" },
  },
  {
    reason: "SERVICE_TOKEN_NOT_FOUND",
    method: revokeServiceToken,
    headers: asService,
    json: { serviceTokenId: "nowhere" },
  },
  {
    reason: "SERVICE_TOKEN_OF_SETTINGS",
    method: revokeServiceToken,
    headers: asService,
    json: { serviceTokenId: "local" },
  },
  {
    reason: "SERVICE_TOKEN_LIMIT_REACHED",
    method: createServiceToken,
    headers: asService,
    async prepare({ keyrun }) {
      const free = async () => {
        const { serviceTokens } = await keyrun.serviceTokens.listServiceTokens({ pageSize: 100 });
        return serviceTokenBounds.acceptedMax - serviceTokens.filter(({ id }) => id !== "local").length;
      };
      for (let left = await free(); left > 0; left--) await keyrun.newServiceToken(ServiceRole.VERIFY);
      return {};
    },
    json: { name: "one-more", role: "SERVICE_ROLE_VERIFY" },
  },
  {
    reason: "OVERLOADED",
    what: "VerifyKey, once the service token was right",
    method: KeyService.method.verifyKey,
    headers: asService,
    prepare: async ({ setOverloaded }) => {
      setOverloaded(true);
      return {};
    },
    undo: async ({ setOverloaded }) => setOverloaded(false),
  },
  {
    reason: "REQUEST_TOO_LARGE",
    what: "WatchKeys",
    method: watchKeys,
    headers: asService,
    json: { teamId: "x".repeat(5_000) },
  },
  {
    reason: "MISSING_GRPC_ENCODING",
    what: "WatchKeys",
    method: watchKeys,
    headers: asService,
    message: { bytes: Buffer.from("x"), flags: 1 },
  },
  {
    reason: "CANCELLED",
    what: "WatchKeys",
    method: watchKeys,
    headers: asService,
    json: { teamId: "demo" },
    leaves: true,
  },
  {
    reason: "NOT_FOUND",
    what: "health of no service",
    method: Health.method.check,
    json: { service: "nowhere" },
  },
  {
    reason: "LOCAL_SIGN_IN_OFF",
    method: SessionService.method.createSignInLink,
    at: "oidcKeyrun",
    headers: ({ oidcKeyrun }) => ({ authorization: `Bearer ${oidcKeyrun.serviceToken}` }),
  },
  { reason: "MISSING_CREDENTIAL", what: "a session's method", method: SessionService.method.getSession },
];

/** Calls of members, on the public listener. */
const ofMembers: readonly Omit<RpcRefusal, "listener">[] = [
  ...[listKeys, watchKeys].flatMap((method): Omit<RpcRefusal, "listener">[] => [
    { reason: "MISDIRECTED_REQUEST", what: method.name, method, headers: asMember, host: "evil.example" },
    { reason: "MISSING_CREDENTIAL", what: method.name, method },
    { reason: "INVALID_CREDENTIAL", what: method.name, method, headers: asStranger },
    {
      reason: "CROSS_SITE_REQUEST",
      what: method.name,
      method,
      headers: (world) => ({ ...asMember(world), "sec-fetch-site": "cross-site" }),
    },
    {
      reason: "TEAM_NOT_FOUND",
      what: method.name,
      method,
      headers: asMember,
      prepare: newTeam,
      json: ({ teamId = "" }) => ({ teamId }),
    },
    {
      reason: "PREVIEW_REQUIRED",
      what: method.name,
      method,
      headers: asMember,
      json: { teamId: "demo" },
      prepare: async ({ keyrun }) => {
        await keyrun.teams.setPreviewAccess({ email: "owner@localhost", granted: false });
        return {};
      },
      undo: ({ keyrun }) => keyrun.teams.setPreviewAccess({ email: "owner@localhost", granted: true }),
    },
  ]),
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

/** Calls whose request has the wrong form or names nothing, on both listeners. */
const ofForm: readonly Omit<RpcRefusal, "listener">[] = [
  ...[getRun, cancelRun].map(
    (method): Omit<RpcRefusal, "listener"> => ({
      reason: "RUN_NOT_FOUND",
      what: method.name,
      method,
      json: { runId: "run_3kd09vbn2m8t5xq7w1zs6hcf" },
      headers: ({ key }) => ({ authorization: `Bearer ${key.value}` }),
    }),
  ),
  ...[runApp, streamApp].flatMap((method): Omit<RpcRefusal, "listener">[] => [
    {
      reason: "METHOD_NOT_ALLOWED",
      what: method.name,
      method,
      change: (ask) => ({ ...ask, method: "PUT" }),
    },
    {
      reason: "UNSUPPORTED_MEDIA_TYPE",
      what: `${method.name}, no RPC`,
      method,
      only: isConnect,
      headers: () => ({ "content-type": "text/html" }),
    },
    {
      reason: "UNSUPPORTED_MEDIA_TYPE",
      what: `${method.name}, gRPC-Web as text`,
      method,
      only: ({ kind }) => kind === "grpc-web",
      headers: () => ({ "content-type": "application/grpc-web-text" }),
    },
    {
      reason: "UNIMPLEMENTED",
      what: `${method.name} without a message`,
      method,
      only: isGrpcAlike,
      headers: ({ key }) => ({ authorization: `Bearer ${key.value}` }),
      change: (ask) => ({ ...ask, body: "" }),
    },
  ]),
  ...[watchKeys, streamApp].map(
    (method): Omit<RpcRefusal, "listener"> => ({
      reason: "UNSUPPORTED_MEDIA_TYPE",
      what: `${method.name} as a unary call`,
      method,
      only: isConnect,
      headers: (world) => ({ ...asMember(world), "content-type": "application/json" }),
    }),
  ),
  {
    reason: "UNSUPPORTED_MEDIA_TYPE",
    what: "RunApp as a stream",
    method: runApp,
    only: isConnect,
    headers: () => ({ "content-type": "application/connect+json" }),
  },
  {
    reason: "UNIMPLEMENTED",
    what: "an unknown method",
    method: runApp,
    only: isGrpcAlike,
    change: (ask) => ({ ...ask, path: `/keyrun.v1.RunService/Walk?q=${secretQuery}` }),
  },
];

/** Calls of anyone, on the public listener. */
const ofAnyone: readonly Omit<RpcRefusal, "listener">[] = [
  { reason: "INVALID_ARGUMENT", what: "a report without a key", method: revokeLeakedKey },
  {
    reason: "INVALID_ARGUMENT",
    what: "the report of a cut key",
    method: revokeLeakedKey,
    prepare: async ({ key }) => ({ value: key.value.slice(0, -1) }),
    json: ({ value = "" }) => ({ value }),
  },
  {
    reason: "KEY_NOT_FOUND",
    what: "the report of an unknown key",
    method: revokeLeakedKey,
    prepare: async ({ keyrun }) => ({ value: keyrun.unknownKey() }),
    json: ({ value = "" }) => ({ value }),
  },
  {
    reason: "REQUEST_TOO_LARGE",
    what: "a long report",
    method: revokeLeakedKey,
    json: { value: "a".repeat(leakBounds.reportBytesMax) },
  },
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
