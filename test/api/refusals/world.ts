import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { ListenerName } from "#src/auth/policy.ts";
import { freePort } from "../../harness/free-port.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { signInOwner } from "../../harness/members.ts";
import { secretQuery } from "../../harness/protocols.ts";
import { startScriptedApp } from "../../harness/scripted-app.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";

export const limits = { bodyBytes: 4_096, keysPerTeam: 3, runsOfTheFreePlan: 1, runsOfAnApp: 1 };

export type RefusalWorld = Awaited<ReturnType<typeof startRefusalWorld>>;

/**
 * Starts a Keyrun with a screen, local sign-in and small limits, and a second one whose issuer
 * can't be reached. Creates what callers need to be refused for exactly one reason.
 */
export async function startRefusalWorld() {
  const folders = createTempFolders();
  const screenFolder = folders.create();
  mkdirSync(join(screenFolder, "assets"));
  writeFileSync(join(screenFolder, "index.html"), "<!doctype html><title>Keyrun</title>");
  writeFileSync(join(screenFolder, "assets", "main-abc.js"), "");

  const app = await startScriptedApp();
  let overloaded = false;
  const keyrun = await startKeyrun({
    screenFolder,
    load: { sheds: () => overloaded },
    settings: {
      KEYRUN_BODY_BYTES_MAX: String(limits.bodyBytes),
      KEYRUN_KEYS_PER_TEAM_MAX: String(limits.keysPerTeam),
      KEYRUN_PLAN_LIMITS: `free=${limits.runsOfTheFreePlan},enterprise=100000`,
      KEYRUN_PLAN_QUOTAS: "pro=1/month",
      KEYRUN_APP_RUNS_MAX: String(limits.runsOfAnApp),
      KEYRUN_APP_STREAMS_MAX: String(limits.runsOfAnApp),
    },
  });
  const issuerUrl = "http://127.0.0.1:1";
  const oidcKeyrun = await startKeyrun({
    screenFolder,
    settings: {
      KEYRUN_PUBLIC_URL: oidcOrigin,
      KEYRUN_OIDC_ISSUER: issuerUrl,
      KEYRUN_OIDC_CLIENT_ID: "keyrun",
      KEYRUN_OIDC_CLIENT_SECRET: "secret",
    },
  });

  const teamId = await keyrun.newTeam(Plan.ENTERPRISE);
  const key = await keyrun.newKey(teamId);
  const revokedKey = await keyrun.newKey(teamId);
  const restrictedKey = await keyrun.newKey(teamId, { appIds: ["echo"] });
  await keyrun.keys.revokeKey({ teamId, keyId: revokedKey.id });
  const expiredKey = await keyrun.newKey(teamId);
  await keyrun.keys.updateKey({
    ...{ teamId, keyId: expiredKey.id, updateMask: { paths: ["expire_time"] } },
    expireTime: { seconds: 0n, nanos: 0 },
  });
  const { value: verifyToken } = await keyrun.newServiceToken(ServiceRole.VERIFY);
  const request = { name: "manager", role: ServiceRole.MANAGE, teamIds: ["demo"] };
  const { value: manageToken } = await keyrun.serviceTokens.createServiceToken(request);
  const { browser } = await signInOwner(keyrun);
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const nowhere = `http://127.0.0.1:${await freePort()}/`;
  await keyrun.apps.createApp({
    app: { id: "unreachable", backend: { kind: { case: "http", value: { url: nowhere } } } },
  });
  let appCount = 0;
  return {
    keyrun,
    oidcKeyrun,
    app,
    teamId,
    key,
    revokedKey,
    /** It may run `echo` alone. */
    restrictedKey,
    expiredKey,
    verifyToken,
    /** The token of the service `manager`, which may manage the team `demo`. */
    manageToken,
    /** The cookie of the owner's session. The owner is a member of the team `demo`. */
    cookie,
    url(listener: ListenerName, at: "keyrun" | "oidcKeyrun" = "keyrun"): string {
      const { publicUrl, internalUrl } = at === "keyrun" ? keyrun : oidcKeyrun;
      return listener === "public" ? publicUrl : internalUrl;
    },
    /** Whether the Keyrun sheds what may be shed. */
    setOverloaded(now: boolean): void {
      overloaded = now;
    },
    /** Creates an app on the scripted backend. */
    async newApp(timeoutMs = 30_000): Promise<string> {
      appCount += 1;
      const id = `scripted-${appCount}`;
      const timeout = { seconds: BigInt(Math.floor(timeoutMs / 1_000)), nanos: (timeoutMs % 1_000) * 1e6 };
      await keyrun.apps.createApp({ app: { id, backend: app.backend, timeout, streamTimeout: timeout } });
      return id;
    },
    /** Values that must not be in any line of the log. */
    secrets: [
      secretQuery,
      key.value,
      restrictedKey.value,
      revokedKey.value,
      expiredKey.value,
      keyrun.serviceToken,
      verifyToken,
      manageToken,
      oidcKeyrun.serviceToken,
      cookie.slice(cookie.indexOf("=") + 1),
    ],
    async close() {
      app.release();
      await Promise.all([keyrun.close(), oidcKeyrun.close(), app.close()]);
      folders.remove();
    },
  };
}

/**
 * The second Keyrun's public URL. It listens elsewhere, so a request must name this host to be
 * accepted.
 */
export const oidcOrigin = "https://keyrun.example.com";
