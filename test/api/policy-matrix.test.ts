import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, describe, expect, test } from "vitest";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun, withAuthorization } from "../harness/keyrun.ts";

const own = [
  ...[RunService, KeyService, TeamService, AppService, SessionService, FleetService],
  ServiceTokenService,
  AuditService,
];
const operations = [Health, ServerReflection, ServerReflectionV1Alpha];

/**
 * What a member may call with a session. It is written down here anew, and not read from the
 * policy's table.
 */
const forMembers = new Set([
  "CreateKey",
  "ListKeys",
  "RevokeKey",
  "WatchKeys",
  "UpdateKey",
  "RotateKey",
  "GetUsage",
  "ListEvents",
  "GetRateLimit",
  "ListRunnableApps",
]);
const forAnyone = new Set(["RevokeLeakedKey"]);
/** What a service may call with each role, but for the role admin: it may call every method. */
const forRoles = {
  "a verify token": new Set(["VerifyKey", "RevokeLeakedKey"]),
  "a manage token": forMembers,
  "a manage token of another team": new Set<string>(),
  "a metrics token": new Set<string>(),
} as const;
const forSessions = new Set(["GetSession", "SignOut"]);

const wrongCallers = {
  "no credential": () => undefined,
  "an API key": () => `Bearer ${apiKey}`,
  "the service token": () => `Bearer ${keyrun.serviceToken}`,
  "a wrong token": () => `Bearer ${keyrun.serviceToken.slice(1)}x`,
  "another scheme": () => `Basic ${keyrun.serviceToken}`,
  "a cookie that is no session": () => undefined,
  "a verify token": () => `Bearer ${tokens.verify}`,
  "a manage token": () => `Bearer ${tokens.manage}`,
  "a manage token of another team": () => `Bearer ${tokens.otherTeam}`,
  "a metrics token": () => `Bearer ${tokens.metrics}`,
  "an admin token": () => `Bearer ${tokens.admin}`,
  "a revoked token": () => `Bearer ${tokens.revoked}`,
  "a token whose last character is wrong": () => `Bearer ${tokens.admin?.slice(0, -1)}!`,
} as const;
type WrongCaller = keyof typeof wrongCallers;

/** A request of these names the team that the token "a manage token" is for. */
const namesTeam: readonly WrongCaller[] = ["a manage token", "a manage token of another team"];

const sessions: Http2SessionManager[] = [];

const keyrun = closedAtEnd(await startKeyrun());
const apiKey = (await keyrun.newKey("demo")).value;
const made = async (role: ServiceRole, teamIds: string[] = []) =>
  (await keyrun.newServiceToken(role, teamIds)).value;
const revoked = await keyrun.newServiceToken(ServiceRole.ADMIN);
await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: revoked.id });
const tokens = {
  verify: await made(ServiceRole.VERIFY),
  manage: await made(ServiceRole.MANAGE, ["demo"]),
  otherTeam: await made(ServiceRole.MANAGE, [await keyrun.newTeam()]),
  metrics: await made(ServiceRole.METRICS),
  admin: await made(ServiceRole.ADMIN),
  revoked: revoked.value,
};

afterAll(async () => {
  for (const session of sessions) session.abort();
});

/** The code that the contract asks for; undefined where this is the right kind of caller. */
function expectedCode(method: DescMethod, listener: string, caller: WrongCaller): Code | undefined {
  const isPublic = listener === "public";
  if (operations.some((service) => service === method.parent))
    return isPublic ? Code.Unimplemented : undefined;
  if (method.parent === RunService) return caller === "an API key" ? undefined : Code.Unauthenticated;
  if (method.parent === FleetService) return isPublic ? Code.Unimplemented : Code.Unauthenticated;
  if (forSessions.has(method.name)) return Code.Unauthenticated;
  if (isPublic && forAnyone.has(method.name)) return undefined;
  if (isPublic) return forMembers.has(method.name) ? Code.Unauthenticated : Code.Unimplemented;
  if (caller === "the service token" || caller === "an admin token") return undefined;
  const role = Object.entries(forRoles).find(([name]) => name === caller)?.[1];
  if (role === undefined) return Code.Unauthenticated;
  return role.has(method.name) ? undefined : Code.PermissionDenied;
}

describe.each(["public", "internal"])("on the %s listener", (listener) => {
  describe.each(Object.keys(wrongCallers) as WrongCaller[])("%s", (caller) => {
    const methods = [...own, ...operations].flatMap((service) => service.methods);
    const refused = methods.filter((method) => expectedCode(method, listener, caller) !== undefined);
    const taken = methods.filter((method) => !refused.includes(method));

    test.each(refused.map((method) => [method.toString(), method] as const))(
      "is refused by %s",
      async (_, method) => {
        expect(await codeOf(method, listener, caller)).toBe(expectedCode(method, listener, caller));
      },
    );

    if (taken.length > 0) {
      test.each(taken.map((method) => [method.toString(), method] as const))(
        "is taken by %s",
        async (_, method) => {
          expect(await codeOf(method, listener, caller)).not.toSatisfy((code) =>
            [Code.Unauthenticated, Code.PermissionDenied, Code.Unimplemented, Code.Internal].includes(code),
          );
        },
      );
    }
  });
});

test("the matrix contains every service that reflection names", async () => {
  const transport = transportFor("internal", "no credential");
  const asked = [{ messageRequest: { case: "listServices" as const, value: "" } }];
  const answers = createClient(ServerReflection, transport).serverReflectionInfo(toAsync(asked));
  for await (const { messageResponse } of answers) {
    if (messageResponse.case !== "listServicesResponse") throw new Error("no list of services");
    const named = messageResponse.value.service.map(({ name }) => name).sort();
    expect(named).toEqual([...own, ...operations].map(({ typeName }) => typeName).sort());
  }
});

/**
 * Calls the method with an empty request. Returns the code of the refusal, or 0 where there is
 * none.
 */
async function codeOf(method: DescMethod, listener: string, caller: WrongCaller): Promise<Code | 0> {
  const client = createClient(method.parent as DescService, transportFor(listener, caller));
  const call: unknown = Reflect.get(client, method.localName);
  if (typeof call !== "function") throw new Error(`no client for ${method}`);
  const message = namesTeam.includes(caller) && "teamId" in method.input.field ? { teamId: "demo" } : {};
  const request = method.methodKind === "bidi_streaming" ? toAsync([message]) : message;
  const abort = new AbortController();
  try {
    const answer: unknown = call(request, { signal: abort.signal });
    if (!isStream(answer)) await answer;
    // One answer is enough: some of these streams have no end.
    else for await (const _ of answer) break;
    return 0;
  } catch (thrown) {
    return ConnectError.from(thrown).code;
  } finally {
    abort.abort();
  }
}

function transportFor(listener: string, caller: WrongCaller) {
  const url = listener === "public" ? keyrun.publicUrl : keyrun.internalUrl;
  const authorization = wrongCallers[caller]();
  const sessionManager = new Http2SessionManager(url);
  sessions.push(sessionManager);
  return createGrpcTransport({
    baseUrl: url,
    sessionManager,
    interceptors: [
      ...(authorization === undefined ? [] : [withAuthorization(authorization)]),
      (next) => (request) => {
        if (caller === "a cookie that is no session") {
          request.header.set("cookie", `keyrun-${new URL(url).port}=${apiKey}`);
          request.header.set("sec-fetch-site", "same-origin");
        }
        return next(request);
      },
    ],
  });
}

function isStream(answer: unknown): answer is AsyncIterable<unknown> {
  return typeof answer === "object" && answer !== null && Symbol.asyncIterator in answer;
}

async function* toAsync<T>(items: readonly T[]): AsyncIterable<T> {
  yield* items;
}
