import type { DescMethod, DescService, MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditChannel, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { AuditService, type ListEventsRequestSchema } from "#gen/keyrun/v1/audit_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { auditedMethod } from "#src/rpc/audit/audited-methods.ts";
import { createBrowser } from "../harness/browser.ts";
import { runCommand } from "../harness/command-line.ts";
import { type Keyrun, startKeyrun, withAuthorization } from "../harness/keyrun.ts";
import { newSignInLink, signInOwner } from "../harness/members.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { type AuditedCall, auditedCalls, auditedElsewhere } from "./audited-calls.ts";
import { writtenEvents } from "./written-events.ts";

const services = [KeyService, TeamService, AppService, SessionService, ServiceTokenService];
const changing = services.flatMap(({ methods }) => methods.filter((each) => auditedMethod(each)));

test("each method that changes something is called here or has its own test", () => {
  const known = [...auditedCalls.map(({ method }) => method), ...auditedElsewhere];
  const unknown = changing.filter((method) => !known.includes(method));
  expect(unknown.map(String)).toEqual([]);
});

/** The id of the new key is known only when it is made. */
const replacedBy = /^overlap=0s replaced_by_key_id=[0-9a-z]{24}$/;

describe.each(storeOfTier())("with %s", (store, settings) => {
  let keyrun: Keyrun;
  const { written, onStores } = writtenEvents();
  beforeAll(async () => {
    keyrun = await startKeyrun({ settings: { ...settings(), KEYRUN_PLAN_QUOTAS: "pro=1000/day" }, onStores });
    await keyrun.teams.createTeam({ team: { id: "demo" } }).catch(() => {});
  });
  afterAll(() => keyrun.close());

  const events = async (query: MessageInitShape<typeof ListEventsRequestSchema> = {}) =>
    (await keyrun.audit.listEvents({ pageSize: 100, ...query })).events;

  /** Does the work, and returns the events that came with it, newest first. */
  async function eventsOf(work: () => Promise<unknown>) {
    const known = new Set((await events()).map(({ id }) => id));
    await work();
    return (await events()).filter(({ id }) => !known.has(id));
  }

  async function call(method: DescMethod, { request }: AuditedCall, token = keyrun.serviceToken) {
    const interceptors = [withAuthorization(`Bearer ${token}`)];
    const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, interceptors });
    const client = createClient(method.parent as DescService, transport);
    const rpc: unknown = Reflect.get(client, method.localName);
    if (typeof rpc !== "function") throw new Error(`no client for ${method}`);
    try {
      await rpc(request);
      return undefined;
    } catch (thrown) {
      return ConnectError.from(thrown);
    }
  }

  const cases = auditedCalls.map((calls) => [calls.method.name, calls.method, calls] as const);

  test.each(cases)(
    "%s has exactly one event, which says that it was done",
    async (_name, method, { action, done }) => {
      if (method.name === "CreateSignInLink" && store === "MongoDB") return;
      const asked = await done(keyrun);
      const found = await eventsOf(async () => expect(await call(method, asked)).toBeUndefined());
      const { teamId, target, detail = "" } = asked;
      expect(found).toMatchObject([
        {
          ...{
            action,
            teamId,
            target: target ?? found[0]?.target,
            actor: "the service token",
            address: "127.0.0.1",
          },
          ...{ channel: AuditChannel.RPC, outcome: AuditOutcome.DONE, reason: "", count: 1 },
          detail: method.name === "RotateKey" ? expect.stringMatching(replacedBy) : detail,
        },
      ]);
      expect(found[0]?.requestId).not.toBe("");
    },
  );

  // Refused leak reports are joined, and written a minute later: `audit-services.test.ts` has them.
  const joined = ["CreateSignInLink", "RevokeLeakedKey"];
  test.each(cases.filter(([name]) => !joined.includes(name)))(
    "%s has exactly one event also when it is refused",
    async (_name, method, { action, refused }) => {
      const found = await eventsOf(async () => expect(await call(method, refused)).toBeDefined());
      const { teamId, target, detail = "" } = refused;
      expect(found).toMatchObject([
        {
          action,
          teamId,
          target,
          detail,
          outcome: AuditOutcome.REFUSED,
          count: 1,
          actor: "the service token",
        },
      ]);
      expect(found[0]?.reason).toMatch(/^[A-Z_]+$/);
    },
  );

  test("what an update sets is in its event, and of what it names only what Keyrun knows", async () => {
    const { id: keyId } = await keyrun.newKey("demo");
    const expireTime = timestampFromMs(Date.now() + 3_600_000);
    const details = async (work: () => Promise<unknown>) =>
      (await eventsOf(work)).map(({ detail }) => detail);
    const paths = ["expire_time", "label"];
    const update = () => keyrun.keys.updateKey({ teamId: "demo", keyId, expireTime, updateMask: { paths } });
    const time = new Date(timestampMs(expireTime)).toISOString();
    expect(await details(update)).toEqual([`changed=label,expire_time expire_time=${time}`]);
    const grant = { appIds: ["echo"], requestsPerMinute: 10, expireTime };
    const create = () => keyrun.keys.createKey({ teamId: "demo", ...grant });
    expect(await details(create)).toEqual([`expire_time=${time} apps=echo requests_per_minute=10`]);
    const appId = "audited-backend";
    const kind = { case: "http", value: { url: "https://apps.example.com/run?token=abc" } } as const;
    const createApp = () => keyrun.apps.createApp({ app: { id: appId, backend: { kind } } });
    expect(await details(createApp)).toEqual(["backend=https://apps.example.com"]);
    const guard = { case: "guard", value: {} } as const;
    const createGuard = () =>
      keyrun.apps.createApp({ app: { id: "audited-guard", backend: { kind: guard } } });
    expect(await details(createGuard)).toEqual(["backend=guard"]);
    const id = await keyrun.newTeam();
    const team = { id, displayName: "plan=free", plan: Plan.PRO };
    expect(
      await details(async () => {
        await keyrun.teams.updateTeam({ team, updateMask: { paths: ["plan", "display_name"] } });
        await keyrun.teams.updateTeam({ team, updateMask: { paths: ["plan", "a=b c"] } }).catch(() => {});
      }),
    ).toEqual(["changed=plan plan=pro", "changed=display_name,plan plan=pro"]);
    await keyrun.teams.setPreviewAccess({ email: "grace@example.com", granted: true });
    const withdraw = () => keyrun.teams.setPreviewAccess({ email: "grace@example.com", granted: false });
    expect(await details(withdraw)).toEqual(["granted=false"]);
  });

  test("reading, verifying and running write no event", async () => {
    const { value, id } = await keyrun.newKey("demo");
    const found = await eventsOf(async () => {
      await keyrun.keys.listKeys({ teamId: "demo" });
      await keyrun.keys.verifyKey({ value });
      await keyrun.teams.listTeams({});
      await fetch(`${keyrun.publicUrl}/api/apps/echo/run`, {
        method: "POST",
        headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
        body: JSON.stringify({ text: "x" }),
      });
    });
    expect(found).toEqual([]);
    expect((await events({ action: "key.create" }))[0]?.target).toBe(id);
  });

  test("a key that is sent in the place of an id is in no event and no line of the log", async () => {
    const { value } = await keyrun.newKey("demo");
    const secret = value.split(".")[1] ?? "";
    const before = written.length;
    const found = await eventsOf(async () => {
      await call(KeyService.method.revokeKey, { request: { teamId: "demo", keyId: value } });
      await call(TeamService.method.createTeam, { request: { team: { id: value } } });
      await call(TeamService.method.addMember, { request: { teamId: value, email: `${value}@example.com` } });
      await call(AppService.method.deleteApp, { request: { appId: value } });
    });
    expect(found).toHaveLength(4);
    expect(found.map(({ target }) => target)).toEqual(["", "", "", ""]);
    expect(JSON.stringify([found.map(({ id, actor }) => [id, actor]), written.slice(before)])).not.toContain(
      secret.slice(0, 12),
    );
    expect(keyrun.logLines.join("")).not.toContain(secret.slice(0, 12));
  });

  test("a command's event names the command line", async () => {
    const env = {
      KEYRUN_GRPC_HOST: "127.0.0.1",
      KEYRUN_GRPC_PORT: String(keyrun.app.internalAddress.port),
      KEYRUN_SERVICE_TOKEN: keyrun.serviceToken,
    };
    const found = await eventsOf(async () => {
      const made = await runCommand(["teams", "create", "by-command"], { env });
      expect(made.code).toBe(0);
    });
    expect(found).toMatchObject([
      { action: "team.create", actor: "the command line", channel: AuditChannel.COMMAND_LINE },
    ]);
    const shown = await runCommand(["audit", "--action", "team.create", "--since", "1h"], { env });
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    expect(shown.stdout).toMatch(/the command line +team\.create +by-command +- +done +127\.0\.0\.1/);
    const json = await runCommand(["audit", "--team", "by-command", "--json"], { env });
    expect(JSON.parse(json.stdout)).toMatchObject({ events: [{ action: "team.create" }] });
    const wrong = await runCommand(["audit", "--since", "soon"], { env });
    expect(wrong.code).toBe(2);
  });

  test("pages are newest first, whole and bound to their request, and filters are exact", async () => {
    const teamId = await keyrun.newTeam();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.unshift((await keyrun.newKey(teamId)).id);
    const all = await events({ teamId });
    expect(all.map(({ target }) => target)).toEqual([...ids, ""]);
    const first = await keyrun.audit.listEvents({ teamId, action: "key.create", pageSize: 3 });
    const { nextPageToken: pageToken } = first;
    const second = await keyrun.audit.listEvents({ teamId, action: "key.create", pageSize: 3, pageToken });
    expect([...first.events, ...second.events].map(({ target }) => target)).toEqual(ids);
    expect(second.nextPageToken).toBe("");
    const other = keyrun.audit.listEvents({ teamId, action: "key.revoke", pageSize: 3, pageToken });
    await expect(other).rejects.toMatchObject({ code: Code.InvalidArgument });
    const third = all[2];
    if (!third?.time) throw new Error("no third event");
    const later = await events({ teamId, startTime: third.time });
    const earlier = await events({ teamId, endTime: third.time });
    expect(later.length + earlier.length).toBe(6);
    expect(await events({ teamId, actor: "nobody" })).toEqual([]);
    const targets = [ids[0]!, ids[3]!];
    const ofTargets = await keyrun.audit.listEvents({ teamId, targets, pageSize: 1 });
    const next = { teamId, pageSize: 1, pageToken: ofTargets.nextPageToken };
    const rest = await keyrun.audit.listEvents({ ...next, targets });
    expect([...ofTargets.events, ...rest.events].map(({ target }) => target)).toEqual(targets);
    expect(rest.nextPageToken).toBe("");
    await expect(keyrun.audit.listEvents({ ...next, targets: ids })).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
    await expect(events({ teamId, targets: Array.from({ length: 101 }, String) })).rejects.toMatchObject({
      ...{ code: Code.InvalidArgument, rawMessage: "targets must be at most 100." },
    });
  });

  test("a start after the end is refused, as of usage, and a start at the end lists nothing", async () => {
    const [endTime, startTime] = [timestampFromMs(5_000), timestampFromMs(5_001)];
    await expect(keyrun.audit.listEvents({ startTime, endTime })).rejects.toMatchObject({
      ...{ code: Code.InvalidArgument, rawMessage: "start_time must not be after end_time." },
    });
    expect(await events({ startTime: endTime, endTime })).toEqual([]);
  });

  test("the events of a team stay when it is deleted", async () => {
    const teamId = await keyrun.newTeam();
    await keyrun.teams.deleteTeam({ teamId });
    expect((await events({ teamId })).map(({ action }) => action)).toEqual(["team.delete", "team.create"]);
  });

  test("the start and the first secrets are written down", async () => {
    expect(await events({ action: "instance.start" })).toMatchObject([
      { actor: "Keyrun", channel: AuditChannel.UNSPECIFIED, outcome: AuditOutcome.DONE },
    ]);
    const secrets = (await events({ action: "secret.change" })).map(({ target }) => target).sort();
    expect(secrets).toEqual([
      expect.stringMatching(/^service secrets [0-9a-f]{8}$/),
      expect.stringMatching(/^service token [0-9a-f]{8}$/),
    ]);
  });

  test("each event is one line of the log", async () => {
    const from = keyrun.logLines.length;
    const [event] = await eventsOf(() => keyrun.newKey("demo"));
    const lines = keyrun.logLines.slice(from).map((line): unknown => JSON.parse(line));
    const audits = lines.filter((line) => typeof line === "object" && line !== null && "audit" in line);
    expect(audits).toMatchObject([
      { level: "info", msg: "audit", audit: { id: event?.id, action: "key.create", teamId: "demo" } },
    ]);
  });
});

describe("with a person", () => {
  let keyrun: Keyrun;
  const { written, onStores } = writtenEvents();
  beforeAll(async () => {
    keyrun = await startKeyrun({ onStores });
  });
  const eventsOf = async (action: string) => (await keyrun.audit.listEvents({ action })).events;

  test("signing in and out is written down, and so is what the person does on the screen", async () => {
    const owner = await signInOwner(keyrun);
    const person = { actor: "owner@localhost", channel: AuditChannel.SCREEN, outcome: AuditOutcome.DONE };
    expect(await eventsOf("session.sign_in")).toMatchObject([{ ...person, teamId: "" }]);
    await owner.keys.createKey({ teamId: "demo" });
    expect(await eventsOf("key.create")).toMatchObject([{ ...person, teamId: "demo" }]);
    const { events } = await createClient(AuditService, owner.browser.transport).listEvents({
      teamId: "demo",
    });
    expect(events.map(({ action }) => action)).toContain("key.create");
    await owner.sessions.signOut({});
    expect(await eventsOf("session.sign_out")).toMatchObject([person]);
  });

  test("a member reads the events of their own teams alone, and must name one", async () => {
    await keyrun.teams.createTeam({ team: { id: "others" } });
    const { browser } = await signInOwner(keyrun);
    const audit = createClient(AuditService, browser.transport);
    for (const teamId of ["", "others", "nobody"]) {
      await expect(audit.listEvents({ teamId })).rejects.toMatchObject({ code: Code.NotFound });
    }
  });

  test("what a member tried in another team is written down, and not among that team's events", async () => {
    const { keys } = await signInOwner(keyrun);
    await expect(keys.createKey({ teamId: "others" })).rejects.toMatchObject({ code: Code.NotFound });
    expect(await eventsOf("key.create")).toMatchObject([
      {
        ...{ actor: "owner@localhost", teamId: "", target: "others" },
        ...{ outcome: AuditOutcome.REFUSED, reason: "TEAM_NOT_FOUND" },
      },
      {},
    ]);
  });

  test("attempts of unknown callers are joined, and written when the instance stops at the latest", async () => {
    const link = await newSignInLink(keyrun);
    const wrong = `${link.slice(0, -3)}AAA`;
    for (let n = 0; n < 3; n++) await createBrowser(keyrun.publicUrl).openLink(wrong);
    const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken.slice(1)}x`)];
    const keys = createClient(KeyService, createGrpcTransport({ baseUrl: keyrun.internalUrl, interceptors }));
    for (let n = 0; n < 4; n++) await keys.createKey({ teamId: "demo" }).catch(() => {});
    await keys.listKeys({ teamId: "demo" }).catch(() => {});
    await keyrun.close();
    const unknown = written.filter(({ actor }) => actor === "unknown");
    const facts = unknown.map(({ action, reason, count, outcome }) => ({ action, reason, count, outcome }));
    expect(facts).toEqual([
      { action: "session.sign_in", reason: "INVALID_SIGN_IN_CODE", count: 3, outcome: "refused" },
      { action: "key.create", reason: "INVALID_CREDENTIAL", count: 4, outcome: "refused" },
      { action: "service_token.refused", reason: "INVALID_CREDENTIAL", count: 1, outcome: "refused" },
    ]);
    expect(written.at(-1)?.action ?? "").toMatch(/^(instance\.stop|key\.create|service_token\.refused)$/);
    expect(written.map(({ action }) => action)).toContain("instance.stop");
  });
});
