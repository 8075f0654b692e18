import { once } from "node:events";
import {
  createSecureServer,
  createServer,
  type Http2Server,
  type SecureServerOptions,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter, type Interceptor } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus } from "#gen/grpc/health/v1/health_pb.ts";
import { type App, AppSchema } from "#gen/keyrun/v1/app_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { type Key, KeySchema, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { KeyService, VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { Plan, type Team, TeamSchema } from "#gen/keyrun/v1/team_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { fail } from "#src/error.ts";
import { connectErrorFrom } from "#src/rpc/connect-refusal.ts";

const time = timestampFromMs(Date.UTC(2026, 0, 2, 3, 4, 5, 678));
const itemsPerPage = 2;

/**
 * The services that the command line calls, in memory and over real gRPC: enough to see what it sends and what it
 * makes of the answers, without the store and the limits that it never sees. Lists come in pages of two, whatever
 * is asked for.
 */
export async function startSmallKeyrun(serviceToken: string, tls?: SecureServerOptions) {
  const held = {
    teams: [] as Team[],
    apps: [] as App[],
    keys: [] as Key[],
    members: new Map<string, string[]>(),
  };
  const state = {
    ...held,
    preview: new Set<string>(),
    verifiedCosts: [] as (number | undefined)[],
    serving: true,
    signInIsLocal: true,
  };
  const handler = connectNodeAdapter({
    routes: (router) => addRoutes(router, state),
    interceptors: [tokenCheck(serviceToken)],
  });
  const server = tls === undefined ? createServer(handler) : createSecureServer(tls, handler);
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => sessions.add(session.once("close", () => sessions.delete(session))));
  const port = await listen(server);
  const close = async () => {
    for (const session of sessions) session.destroy();
    server.close();
    await once(server, "close");
  };
  return { port, state, close };
}

type State = Awaited<ReturnType<typeof startSmallKeyrun>>["state"];

/** Listens on a free loopback port and answers with it. */
async function listen(
  server: Pick<Http2Server, "listen" | "address"> & NodeJS.EventEmitter,
): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function tokenCheck(serviceToken: string): Interceptor {
  return (next) => (request) => {
    const free = request.service.typeName === Health.typeName;
    if (free || request.header.get("authorization") === `Bearer ${serviceToken}`) return next(request);
    throw connectErrorFrom(fail("INVALID_CREDENTIAL"));
  };
}

function addRoutes(router: ConnectRouter, state: State): void {
  router.service(Health, {
    check: () => ({
      status: state.serving
        ? HealthCheckResponse_ServingStatus.SERVING
        : HealthCheckResponse_ServingStatus.NOT_SERVING,
    }),
  });
  addTeams(router, state);
  addApps(router, state);
  addKeys(router, state);
  addSessions(router, state);
}

function addTeams(router: ConnectRouter, { teams, members, preview }: State): void {
  router.service(TeamService, {
    createTeam({ team }) {
      if (teams.some(({ id }) => id === team?.id)) throw connectErrorFrom(fail("TEAM_EXISTS"));
      teams.push(create(TeamSchema, { ...team!, createTime: time }));
      return { team: teams.at(-1)! };
    },
    listTeams: ({ pageToken }) => pageOf("teams", teams, pageToken),
    updateTeam({ team, updateMask }) {
      const found = teams.find(({ id }) => id === team?.id);
      if (found === undefined) throw connectErrorFrom(fail("TEAM_NOT_FOUND"));
      if (updateMask?.paths.join() !== "plan") throw new ConnectError("only the plan", Code.InvalidArgument);
      found.plan = team?.plan ?? Plan.UNSPECIFIED;
      return { team: found };
    },
    addMember({ teamId, email }) {
      members.set(teamId, [...(members.get(teamId) ?? []), email.toLowerCase()]);
      return { member: { email: email.toLowerCase(), createTime: time } };
    },
    removeMember({ teamId, email }) {
      members.set(
        teamId,
        (members.get(teamId) ?? []).filter((member) => member !== email),
      );
      return {};
    },
    listMembers: ({ teamId, pageToken }) =>
      pageOf(
        "members",
        (members.get(teamId) ?? []).map((email) => ({ email, createTime: time })),
        pageToken,
      ),
    setPreviewAccess({ email, granted }) {
      if (granted) preview.add(email);
      else preview.delete(email);
      return {};
    },
    listPreviewAccess: ({ pageToken }) => pageOf("emails", [...preview], pageToken),
  });
}

function addApps(router: ConnectRouter, { apps }: State): void {
  router.service(AppService, {
    createApp({ app }) {
      apps.push(create(AppSchema, { ...app!, createTime: time }));
      return { app: apps.at(-1)! };
    },
    listApps: ({ pageToken }) => pageOf("apps", apps, pageToken),
    deleteApp({ appId }) {
      const index = apps.findIndex(({ id }) => id === appId);
      if (index < 0) throw connectErrorFrom(fail("APP_NOT_FOUND"));
      apps.splice(index, 1);
      return {};
    },
  });
}

/** The full value of the small Keyrun's key of this number. */
export const smallKeyValue = (number: number) =>
  `svc_${String(number).padStart(24, "0")}.${"S3cr3t".repeat(8)}x`;

function addKeys(router: ConnectRouter, { keys, verifiedCosts }: State): void {
  router.service(KeyService, {
    createKey({ teamId, label }) {
      const value = smallKeyValue(keys.length);
      const redactedValue = `${value.slice(0, 8)}…${value.slice(-4)}`;
      const id = String(keys.length).padStart(24, "0");
      const key = create(KeySchema, {
        id,
        teamId,
        label,
        redactedValue,
        createTime: time,
        state: KeyState.ACTIVE,
      });
      keys.push(key);
      return { key, value };
    },
    listKeys({ teamId, showRevoked, pageToken }) {
      const shown = keys.filter(
        (key) => key.teamId === teamId && (showRevoked || key.state === KeyState.ACTIVE),
      );
      const activeKeyCount = keys.filter((key) => key.state === KeyState.ACTIVE).length;
      return { ...pageOf("keys", shown, pageToken), activeKeyCount, activeKeyCountMax: 50 };
    },
    revokeKey({ keyId }) {
      const key = keys.find(({ id }) => id === keyId);
      if (key === undefined) throw connectErrorFrom(fail("KEY_NOT_FOUND"));
      key.state = KeyState.REVOKED;
      key.revokeTime ??= time;
      return { key };
    },
    verifyKey({ value, cost }) {
      verifiedCosts.push(cost);
      const key = keys.find((_, number) => smallKeyValue(number) === value);
      if (key === undefined) return { verdict: Verdict.INVALID };
      const verdict = key.state === KeyState.ACTIVE ? Verdict.VALID : Verdict.REVOKED;
      return { verdict, keyId: key.id, teamId: key.teamId, plan: Plan.FREE };
    },
  });
}

/** The only link that the small Keyrun makes. */
export const smallSignInLink = `http://127.0.0.1:8080/sign-in/link#code=${"C0de".repeat(10)}123`;

function addSessions(router: ConnectRouter, state: State): void {
  router.service(SessionService, {
    createSignInLink() {
      if (state.signInIsLocal) return { url: smallSignInLink, expireTime: time };
      throw connectErrorFrom(
        fail("LOCAL_SIGN_IN_OFF", { metadata: { sign_in_url: "https://keyrun.example.com/sign-in" } }),
      );
    },
  });
}

function pageOf<const Name extends string, Item>(name: Name, items: readonly Item[], pageToken: string) {
  const start = Number(pageToken || "0");
  const end = start + itemsPerPage;
  // Made of exactly this name on this line.
  const page = { [name]: items.slice(start, end) } as Record<Name, Item[]>;
  return { ...page, nextPageToken: end < items.length ? String(end) : "" };
}
