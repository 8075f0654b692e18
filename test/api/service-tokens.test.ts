import { randomBytes } from "node:crypto";
import { Code, createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { KeyService, VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { bounds } from "#src/bounds.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { serviceTokenBounds } from "#src/service-tokens/service-token-store.ts";
import { createServiceTokenForm } from "#src/service-tokens/service-tokens.ts";
import { type Keyrun, startKeyrun, tokenTransports } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { refusedCall } from "./refused-call.ts";

const { VERIFY, MANAGE, METRICS, ADMIN } = ServiceRole;
const unknownId = "7k3f0m9x2a4c6e8g1j5n7p9q";

/** Clients that show this token. */
function as(token: string, { internalUrl }: Pick<Keyrun, "internalUrl">, protocol = "gRPC") {
  const transport = tokenTransports[protocol]!(internalUrl, token);
  return {
    keys: createClient(KeyService, transport),
    teams: createClient(TeamService, transport),
    serviceTokens: createClient(ServiceTokenService, transport),
  };
}

describe.each(storeOfTier())("with %s", (_, settings) => {
  describe("service tokens", () => {
    let keyrun: Keyrun;
    beforeAll(async () => {
      keyrun = await startKeyrun({ settings: settings(), logLevel: "trace" });
      await keyrun.teams.createTeam({ team: { id: "demo" } }).catch(() => {});
    });
    afterAll(() => keyrun.close());

    const create = (name: string, role: ServiceRole, teamIds: string[] = []) =>
      keyrun.serviceTokens.createServiceToken({ name, role, teamIds });

    test("a token is listed without its value, under its name, and the token of the settings is the last", async () => {
      const { serviceToken, value } = await create("listed", MANAGE, ["demo"]);
      expect(value).toMatch(/^keyrunservice_[0-9a-hjkmnp-tv-z]{24}\.[0-9A-Za-z]{49}$/);
      const { serviceTokens } = await keyrun.serviceTokens.listServiceTokens({});
      const listed = serviceTokens.find(({ name }) => name === "listed");
      expect(listed).toEqual(serviceToken);
      expect(listed).toMatchObject({ role: MANAGE, teamIds: ["demo"], createdBy: "the service token" });
      expect(listed?.redactedValue).toBe(`${value.slice(0, 18)}…${value.slice(-4)}`);
      expect(listed?.lastUseTime).toBeUndefined();
      const local = serviceTokens.at(-1);
      expect(local).toMatchObject({ id: "local", name: "local", role: ADMIN, redactedValue: "" });
      expect(local?.createTime).toBeUndefined();
    });

    test("pages hold every token once, and that of the settings once at the end", async () => {
      for (let n = 0; n < 3; n++) await keyrun.newServiceToken(VERIFY);
      const all = (await keyrun.serviceTokens.listServiceTokens({ pageSize: 100 })).serviceTokens;
      for (let pageSize = 1; pageSize <= all.length + 1; pageSize++) {
        const names: string[] = [];
        let pageToken = "";
        do {
          const page = await keyrun.serviceTokens.listServiceTokens({ pageSize, pageToken });
          expect(page.serviceTokens.length).toBeLessThanOrEqual(pageSize);
          names.push(...page.serviceTokens.map(({ name }) => name));
          pageToken = page.nextPageToken;
        } while (pageToken !== "");
        expect(names).toEqual(all.map(({ name }) => name));
      }
    });

    test("two accepted tokens never have one name, and the name of a revoked one is free", async () => {
      const first = await create("twice", VERIFY);
      expect(await refusedCall(create("twice", ADMIN))).toMatchObject({
        code: Code.AlreadyExists,
        reason: "SERVICE_TOKEN_EXISTS",
      });
      await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: first.serviceToken!.id });
      await create("twice", ADMIN);
    });

    test.each([
      ["a name with other characters", { name: "Billing", role: VERIFY }, "name"],
      ["an e-mail as the name", { name: "ada@example.com", role: VERIFY }, "name"],
      ["the name of the settings' token", { name: "local", role: VERIFY }, "name"],
      ["the word for callers who prove nothing", { name: "unknown", role: VERIFY }, "name"],
      ["the name of Keyrun", { name: "keyrun", role: VERIFY }, "name"],
      ["no role", { name: "wrong" }, "role"],
      ["an unknown role", { name: "wrong", role: 9 as ServiceRole }, "role"],
      ["the role manage without a team", { name: "wrong", role: MANAGE }, "team_ids"],
      ["another role with a team", { name: "wrong", role: VERIFY, teamIds: ["demo"] }, "team_ids"],
      ["the role admin with a team", { name: "wrong", role: ADMIN, teamIds: ["demo"] }, "team_ids"],
      ["an id that no team can have", { name: "wrong", role: MANAGE, teamIds: ["?"] }, "team_ids[0]"],
    ])("%s is refused, and nothing is made", async (_, request, field) => {
      const refusal = await refusedCall(keyrun.serviceTokens.createServiceToken(request));
      expect(refusal).toMatchObject({ code: Code.InvalidArgument });
      expect(refusal.words).toContain(field.replace(/\[.*/, ""));
      const { serviceTokens } = await keyrun.serviceTokens.listServiceTokens({ showRevoked: true });
      expect(serviceTokens.map(({ name }) => name)).not.toContain("wrong");
    });

    test("a team that does not exist is refused by its name", async () => {
      expect(await refusedCall(create("nowhere", MANAGE, ["demo", "nowhere"]))).toMatchObject({
        code: Code.NotFound,
        reason: "TEAM_NOT_FOUND",
        metadata: { team_id: "nowhere" },
      });
    });

    describe.each(Object.keys(tokenTransports))("over %s", (protocol) => {
      test("a token that was revoked is dead at once, also where it was just used, and a repeat changes nothing", async () => {
        const { id, value } = await keyrun.newServiceToken(VERIFY);
        const { keys } = as(value, keyrun, protocol);
        const key = await keyrun.newKey("demo");
        for (let n = 0; n < 3; n++) {
          expect((await keys.verifyKey({ value: key.value, cost: 0 })).verdict).toBe(Verdict.VALID);
        }
        const first = await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: id });
        expect(first.serviceToken).toMatchObject({ id, revokedBy: "the service token" });
        expect(await refusedCall(keys.verifyKey({ value: key.value, cost: 0 }))).toMatchObject({
          code: Code.Unauthenticated,
          reason: "INVALID_CREDENTIAL",
        });
        const again = await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: id });
        expect(again.serviceToken?.revokeTime).toEqual(first.serviceToken?.revokeTime);
      });

      test("a service manages its own teams alone, with the same words for another and for none", async () => {
        const other = await keyrun.newTeam();
        const { name, value } = await keyrun.newServiceToken(MANAGE, ["demo"]);
        const { keys, teams } = as(value, keyrun, protocol);
        const { key } = await keys.createKey({ teamId: "demo", label: "by the service token" });
        expect(key?.createdBy).toBe(name);
        expect((await teams.getRateLimit({ teamId: "demo" })).rateLimit).toBeDefined();
        const words: (string | undefined)[] = [];
        for (const teamId of [other, "nowhere", "", "NOT AN ID"]) {
          const refusal = await refusedCall(keys.listKeys({ teamId, pageSize: -1 }));
          expect(refusal).toMatchObject({ code: Code.PermissionDenied, reason: "SERVICE_ROLE_REQUIRED" });
          expect(refusal.metadata).toEqual({ service: name, role: "manage", team_ids: "demo" });
          words.push(refusal.words);
        }
        expect(new Set(words).size).toBe(1);
        const revoked = await keys.revokeKey({ teamId: "demo", keyId: key!.id });
        expect(revoked.key?.revokedBy).toBe(name);
      });

      test("a stream of a service ends at the first check after the revocation of its token", async () => {
        const { id, value } = await keyrun.newServiceToken(MANAGE, ["demo"]);
        const { keys } = as(value, keyrun, protocol);
        vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
        onTestFinished(() => void vi.useRealTimers());
        const stream = keys.watchKeys({ teamId: "demo" })[Symbol.asyncIterator]();
        expect((await stream.next()).value.event.case).toBe("opened");
        const refusal = refusedCall(stream.next());
        await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: id });
        await vi.advanceTimersByTimeAsync(bounds.keyWatchRecheckMs);
        expect(await refusal).toMatchObject({ code: Code.Unauthenticated, reason: "INVALID_CREDENTIAL" });
      });

      test("a stream of another team is refused before it is opened", async () => {
        const { value } = await keyrun.newServiceToken(MANAGE, ["demo"]);
        const { keys } = as(value, keyrun, protocol);
        const stream = keys.watchKeys({ teamId: await keyrun.newTeam() })[Symbol.asyncIterator]();
        expect(await refusedCall(stream.next())).toMatchObject({ reason: "SERVICE_ROLE_REQUIRED" });
      });
    });

    test("a refusal for a missing role names the service and the role that is needed", async () => {
      const { name, value } = await keyrun.newServiceToken(VERIFY);
      expect(await refusedCall(as(value, keyrun).keys.listKeys({ teamId: "demo" }))).toMatchObject({
        code: Code.PermissionDenied,
        reason: "SERVICE_ROLE_REQUIRED",
        metadata: { service: name, role: "manage" },
      });
      expect(await refusedCall(as(value, keyrun).teams.listTeams({}))).toMatchObject({
        metadata: { service: name, role: "admin" },
      });
    });

    test("a service with the role admin does all that the token of the settings does, under its own name", async () => {
      const { name, value } = await keyrun.newServiceToken(ADMIN);
      const { keys, teams, serviceTokens } = as(value, keyrun);
      await teams.listTeams({});
      expect((await keys.createKey({ teamId: "demo" })).key?.createdBy).toBe(name);
      const request = { name: `${name}-child`, role: METRICS };
      const { serviceToken } = await serviceTokens.createServiceToken(request);
      expect(serviceToken?.createdBy).toBe(name);
    });

    test("/metrics is for the roles metrics and admin alone", async () => {
      const statusOf = async (token: string) => {
        const headers = { authorization: `Bearer ${token}` };
        const answer = await fetch(`${keyrun.internalUrl}/metrics`, { headers });
        await answer.text();
        return answer.status;
      };
      const tokenOf = async (role: ServiceRole, teamIds?: string[]) =>
        (await keyrun.newServiceToken(role, teamIds)).value;
      expect(await statusOf(keyrun.serviceToken)).toBe(200);
      expect(await statusOf(await tokenOf(METRICS))).toBe(200);
      expect(await statusOf(await tokenOf(ADMIN))).toBe(200);
      expect(await statusOf(await tokenOf(VERIFY))).toBe(403);
      expect(await statusOf(await tokenOf(MANAGE, ["demo"]))).toBe(403);
      const { id, value } = await keyrun.newServiceToken(METRICS);
      expect(await statusOf(value)).toBe(200);
      await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: id });
      expect(await statusOf(value)).toBe(401);
    });

    test("the token of the settings can't be revoked, nor one that is not there, and no id is repeated that is none", async () => {
      const revoke = (serviceTokenId: string) =>
        refusedCall(keyrun.serviceTokens.revokeServiceToken({ serviceTokenId }));
      const local = await revoke("local");
      expect(local).toMatchObject({
        code: Code.FailedPrecondition,
        reason: "SERVICE_TOKEN_OF_SETTINGS",
      });
      expect(local.words).toContain("KEYRUN_SERVICE_TOKEN");
      expect(await revoke(unknownId)).toMatchObject({ code: Code.NotFound });
      expect(await revoke("")).toMatchObject({ code: Code.InvalidArgument });
      const { value } = await keyrun.newServiceToken(VERIFY);
      const pasted = await revoke(value);
      expect(pasted).toMatchObject({ reason: "SERVICE_TOKEN_NOT_FOUND" });
      expect(JSON.stringify(pasted)).not.toContain(value.slice(-20));
      await keyrun.teams.listTeams({});
    });

    test("a use is told at once, and written a moment later", async () => {
      const { id, value } = await keyrun.newServiceToken(VERIFY);
      const lastUse = async () =>
        (await keyrun.serviceTokens.listServiceTokens({ pageSize: 100 })).serviceTokens.find(
          (each) => each.id === id,
        )?.lastUseTime;
      expect(await lastUse()).toBeUndefined();
      await as(value, keyrun).keys.verifyKey({ value: "none", cost: 0 });
      expect(await lastUse()).toBeDefined();
    });

    test("a wrong token of the right form never reaches the store, and a known one reaches it once", async () => {
      const reads = 'keyrun_store_reads_total{entity="service_token"}';
      const { value } = await keyrun.newServiceToken(VERIFY);
      const before = await keyrun.metric(reads);
      const invented = createServiceTokenForm(createServiceSecrets([randomBytes(32)]));
      for (let n = 0; n < 5; n++) {
        const wrong = invented.mint(randomBytes).value;
        const cut = `${value.slice(0, -1)}${value.endsWith("a") ? "b" : "a"}`;
        for (const token of [wrong, cut, value.slice(1), "keyrunservice_", keyrun.unknownKey()]) {
          expect(await refusedCall(as(token, keyrun).keys.verifyKey({ value: "none" }))).toMatchObject({
            code: Code.Unauthenticated,
          });
        }
      }
      expect(await keyrun.metric(reads)).toBe(before);
      const call = () => as(value, keyrun).keys.verifyKey({ value: "none", cost: 0 });
      await Promise.all(Array.from({ length: 20 }, call));
      await call();
      expect(await keyrun.metric(reads)).toBe(before + 1);
    });

    test("an API key is no service token, and a service token is no API key, whatever the key's prefix", async () => {
      const { value } = await keyrun.newServiceToken(ADMIN);
      const { verdict } = await keyrun.keys.verifyKey({ value, cost: 0 });
      expect(verdict).toBe(Verdict.INVALID);
      const prefix = value.slice(0, value.indexOf("_"));
      await expect(startKeyrun({ settings: { KEYRUN_KEY_PREFIX: prefix } })).rejects.toThrow(
        "KEYRUN_KEY_PREFIX",
      );
    });

    test("a team that is deleted leaves the tokens that name it, so a new team with its id is not theirs", async () => {
      const teamId = await keyrun.newTeam();
      const { value } = await keyrun.newServiceToken(MANAGE, ["demo", teamId]);
      const { keys } = as(value, keyrun);
      await keys.listKeys({ teamId });
      await keyrun.teams.deleteTeam({ teamId });
      await keyrun.teams.createTeam({ team: { id: teamId } });
      expect(await refusedCall(keys.listKeys({ teamId }))).toMatchObject({ reason: "SERVICE_ROLE_REQUIRED" });
      await keys.listKeys({ teamId: "demo" });
    });

    test("no value of a token is in a log line, whatever its caller did with it", async () => {
      const { id, value } = await keyrun.newServiceToken(VERIFY);
      await as(value, keyrun).keys.verifyKey({ value });
      await fetch(`${keyrun.publicUrl}/api/apps/${value}/run?x=${value}`, { method: "POST" });
      await fetch(`${keyrun.internalUrl}/${value}`, { headers: { "user-agent": value } });
      await refusedCall(keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: value }));
      await refusedCall(as(value, keyrun).teams.getTeam({ teamId: value }));
      await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: id });
      await refusedCall(as(value, keyrun).keys.verifyKey({ value }));
      const secret = value.slice(value.indexOf(".") + 1);
      expect(keyrun.logLines.filter((line) => line.includes(secret))).toEqual([]);
      expect(keyrun.logLines.some((line) => line.includes("a service token was revoked"))).toBe(true);
    });
  });
});

test("there are never more accepted tokens than the bound, and revoking one makes room", async () => {
  const keyrun = await startKeyrun();
  onTestFinished(() => keyrun.close());
  const made = [];
  for (let n = 0; n < serviceTokenBounds.acceptedMax; n++) made.push(await keyrun.newServiceToken(VERIFY));
  expect(await refusedCall(keyrun.newServiceToken(VERIFY))).toMatchObject({
    code: Code.FailedPrecondition,
    reason: "SERVICE_TOKEN_LIMIT_REACHED",
  });
  await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: made[0]!.id });
  await keyrun.newServiceToken(VERIFY);
});

test("a token works after a restart with a new secret before the old one, and the start is refused without the old one", async () => {
  const [first, second] = [randomBytes(32).toString("base64url"), randomBytes(32).toString("base64url")];
  const folders = createTempFolders();
  onTestFinished(folders.remove);
  const dataDir = folders.create();
  const start = (secrets: string) =>
    startKeyrun({ settings: { KEYRUN_DATA_DIR: dataDir, KEYRUN_SECRET: secrets } });
  const before = await start(first);
  await before.teams.createTeam({ team: { id: "acme" } });
  const { value } = await before.newServiceToken(MANAGE, ["acme"]);
  await before.close();
  await expect(start(second)).rejects.toThrow("service tokens or keys made with a service secret");
  const after = await start(`${second},${first}`);
  await as(value, after).keys.listKeys({ teamId: "acme" });
  const { serviceTokens } = await after.serviceTokens.listServiceTokens({});
  await after.serviceTokens.revokeServiceToken({ serviceTokenId: serviceTokens[0]!.id });
  await after.close();
  const last = await start(second);
  onTestFinished(() => last.close());
  expect(await refusedCall(as(value, last).keys.listKeys({ teamId: "acme" }))).toMatchObject({
    code: Code.Unauthenticated,
  });
});

test("a server does not start with a token of one service as its own", async () => {
  const { value } = createServiceTokenForm(createServiceSecrets([randomBytes(32)])).mint(randomBytes);
  await expect(startKeyrun({ settings: { KEYRUN_SERVICE_TOKEN: value } })).rejects.toThrow(
    "made for one service",
  );
});

test("the uses of the last second are written before a stop ends", async () => {
  const clock = createManualClock({ monotonicMs: 0, unixMs: Date.UTC(2026, 0, 2) });
  const written: number[] = [];
  const keyrun = await startKeyrun({
    clock,
    onStores: (stores) => ({
      ...stores,
      serviceTokens: {
        ...stores.serviceTokens,
        async recordUses(uses) {
          written.push(...uses.values());
          await stores.serviceTokens.recordUses(uses);
        },
      },
    }),
  });
  const { value } = await keyrun.newServiceToken(VERIFY);
  await as(value, keyrun).keys.verifyKey({ value: "none", cost: 0 });
  await keyrun.close();
  expect(written).toContain(Date.UTC(2026, 0, 2));
});
