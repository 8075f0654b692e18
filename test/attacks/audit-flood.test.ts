import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Pool } from "undici";
import { expect, test } from "vitest";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { auditBounds } from "#src/audit/audit-store.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { manage } from "../harness/keyrun.ts";
import { type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";
import { queryStore } from "../harness/stored-bytes.ts";

const folders = tempFolders();

const attempts = campaignSize("audit-flood");
/** Of these addresses, each attempt is counted by address and action. */
const known = { addresses: 10, attemptsEach: 200 };
const atOnce = 40;

/** An attempt that Keyrun refuses: where it is sent, and how the events name it. */
interface Attempt {
  readonly action: string;
  readonly path: string;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
}

const json = { "content-type": "application/json" };
const rpc = (path: string, action: string, token: string, body: object = {}): Attempt => ({
  ...{ path: `/keyrun.v1.${path}`, action, body },
  headers: { ...json, "connect-protocol-version": "1", authorization: `Bearer ${token}` },
});

/** What a caller without a service token sends to the internal listener. */
const wrongTokens: readonly Attempt[] = [
  rpc("KeyService/CreateKey", "key.create", "wrong", { teamId: "demo" }),
  rpc("KeyService/RevokeKey", "key.revoke", "wrong", { teamId: "demo", keyId: "7k3f0m9x2a4c6e8g1j5n7p9q" }),
  rpc("KeyService/ListKeys", "service_token.refused", "wrong", { teamId: "demo" }),
];

/** What a stranger sends to the public listener, from an address of their choice. */
function strangers(origin: string, wrongKey: string): readonly Attempt[] {
  return [
    {
      ...{ action: "session.sign_in", path: "/sign-in/code", body: { code: "A".repeat(43) } },
      headers: { ...json, origin },
    },
    {
      action: "key.revoke_leaked",
      path: "/api/keys/revoke-leaked",
      body: { value: wrongKey },
      headers: json,
    },
    rpc("KeyService/CreateKey", "key.create", wrongKey, { teamId: "demo" }),
  ];
}

interface Counted {
  readonly byAddressAndAction: Map<string, number>;
  refused: number;
  /** Refused before anybody looked at them, as there was too much to do. */
  shed: number;
}

/** Sends as many attempts as these say, some at once. */
async function send(
  pool: Pool,
  total: number,
  counted: Counted,
  nth: (n: number) => { readonly attempt: Attempt; readonly address: string; readonly isForwarded?: boolean },
): Promise<void> {
  let sent = 0;
  const sendAll = async () => {
    while (sent < total) {
      const { attempt, address, isForwarded } = nth(sent++);
      const { statusCode, body } = await pool.request({
        ...{ method: "POST", path: attempt.path, body: JSON.stringify(attempt.body) },
        headers: { ...attempt.headers, ...(isForwarded && { "x-forwarded-for": address }) },
      });
      await body.dump();
      if (statusCode === 503) counted.shed += 1;
      else {
        expect([400, 401, 403, 404]).toContain(statusCode);
        counted.refused += 1;
        const name = `${address} ${attempt.action}`;
        counted.byAddressAndAction.set(name, (counted.byAddressAndAction.get(name) ?? 0) + 1);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, sendAll));
}

/** All files of the store; those of its log among them. */
function storeBytes(dataDir: string): number {
  return readdirSync(dataDir)
    .filter((name) => name.startsWith("keyrun.db"))
    .reduce((sum, name) => sum + statSync(join(dataDir, name)).size, 0);
}

async function stop(keyrun: ServingKeyrun): Promise<void> {
  keyrun.kill("SIGTERM");
  expect((await keyrun.exited).code).toBe(0);
}

interface Row {
  readonly actor: string;
  readonly address: string;
  readonly action: string;
  readonly reason: string;
  readonly count: number;
  readonly timeMs: number;
}

const minuteMs = 60_000;
const hourMs = 3_600_000;

test(
  `${attempts} refused attempts of unknown callers make a bounded number of events, which count them all`,
  async () => {
    const dataDir = folders.create();
    const settings = { KEYRUN_TRUST_PROXY: "1", KEYRUN_LOG_LEVEL: "warn" };
    await stop(await serveKeyrun(dataDir, settings));
    const bytesBefore = storeBytes(dataDir);
    const keyrun = await serveKeyrun(dataDir, settings);
    const before = residentMemory(keyrun.pid).now;
    const management = manage(keyrun.internalUrl, keyrun.serviceToken());
    const [own, foreign] = [await management.newTeam(), await management.newTeam()];
    const service = await management.newServiceToken(ServiceRole.MANAGE, [own]);
    management.disconnect();

    const counted: Counted = { byAddressAndAction: new Map(), refused: 0, shed: 0 };
    for (let n = 0; n < known.addresses; n++) {
      const address = `127.0.0.${n + 2}`;
      const pool = new Pool(keyrun.internalUrl, { connections: atOnce, localAddress: address });
      await send(pool, known.attemptsEach, counted, (at) => ({
        attempt: wrongTokens[at % wrongTokens.length]!,
        address,
      }));
      await pool.close();
    }
    const perAddress = new Map(counted.byAddressAndAction);
    const publicPool = new Pool(keyrun.publicUrl, { connections: atOnce });
    const wrongKey = `svc_${"7".repeat(24)}.${"a".repeat(49)}`;
    const kinds = strangers(keyrun.publicUrl, wrongKey);
    await send(publicPool, attempts, counted, (n) => ({
      attempt: kinds[n % kinds.length]!,
      address: `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`,
      isForwarded: true,
    }));
    await publicPool.close();
    // A service whose token is good is known by its name, and tries the team of others.
    const ofService: Counted = { byAddressAndAction: new Map(), refused: 0, shed: 0 };
    const internalPool = new Pool(keyrun.internalUrl, { connections: atOnce });
    const foreignTeam = rpc("KeyService/CreateKey", "key.create", service.value, { teamId: foreign });
    await send(internalPool, 2_000, ofService, () => ({ attempt: foreignTeam, address: "127.0.0.1" }));
    await internalPool.close();
    const { peak } = residentMemory(keyrun.pid);
    await stop(keyrun);
    const grown = storeBytes(dataDir) - bytesBefore;

    const rows = (await queryStore(
      dataDir,
      "SELECT actor, address, action, reason, count, time_ms AS timeMs FROM audit_events WHERE outcome = 'refused'",
    )) as unknown as Row[];
    const unknown = rows.filter(({ actor }) => actor === "unknown");
    const sum = (of: readonly Row[]) => of.reduce((all, { count }) => all + count, 0);
    figure("refused attempts of unknown callers", counted.refused);
    figure("shed", counted.shed);
    figure("events", unknown.length);
    figure("which count", sum(unknown));
    figure("refused attempts of a service", ofService.refused);
    figure("their events", rows.length - unknown.length);
    figure("before", before, "MB");
    figure("at most", peak, "MB");
    figure("the store grew by", grown, "bytes");
    expect(counted.refused).toBeGreaterThan(attempts / 2);
    // What was shed may have been noted, if it was shed late.
    expect(sum(unknown)).toBeGreaterThanOrEqual(counted.refused);
    expect(sum(unknown)).toBeLessThanOrEqual(counted.refused + counted.shed);
    const hours = Map.groupBy(unknown, ({ timeMs }) => Math.floor(timeMs / hourMs));
    for (const events of hours.values()) {
      expect(events.length).toBeLessThanOrEqual(auditBounds.joinedEventsPerHourMax);
    }
    const nameOf = ({ actor, address, action, reason, timeMs }: Row) =>
      [actor, address, action, reason, Math.floor(timeMs / minuteMs)].join(" ");
    expect(new Set(unknown.map(nameOf)).size).toBe(unknown.length);
    // Those that came first have events of their own, and these count rightly.
    for (const [name, count] of perAddress) {
      expect(sum(unknown.filter(({ address, action }) => `${address} ${action}` === name))).toBe(count);
    }
    expect(unknown.some(({ action }) => action === "attempts.more")).toBe(true);
    const named = rows.filter(({ actor }) => actor === service.name);
    expect(sum(named)).toBe(ofService.refused);
    // The service may have been refused in three minutes at most, each with one joined event.
    expect(named.length).toBeLessThanOrEqual(3 * (auditBounds.refusedPerMinuteMax + 1));
    expect(grown).toBeLessThan(2_000_000);
    expect(peak).toBeLessThan(350);
  },
  120_000 + attempts * 10,
);
