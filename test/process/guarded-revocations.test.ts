import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { campaignSize, figure, timeFigures } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { type Fleet, fleetMissing, startFleet } from "../harness/fleet.ts";
import type { RecorderApi, RecorderData, RevokeAnswer } from "../harness/fleet-recorder.ts";
import { type GuardProxy, guardProxyMissing, startGuardProxy } from "../harness/guard-proxy.ts";
import type { manage } from "../harness/keyrun.ts";
import { describeWith } from "../harness/needs.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { startThread } from "../harness/thread.ts";

const keysRevoked = campaignSize("guarded-revocations");
/** Keys that are used and revoked at the same time. */
const keysAtOnce = 4;

const folders = createTempFolders();
let fleet: Fleet;
let management: ReturnType<typeof manage>;
let service: Server;
let nginx: GuardProxy;
let recorder: Awaited<ReturnType<typeof startThread<RecorderApi>>>;

describeWith(fleetMissing("processes") ?? guardProxyMissing("nginx"))("nginx in front of a service", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", settings: { KEYRUN_TRUST_PROXY: "1" } });
    management = fleet.manage();
    await management.apps.createApp({
      app: { id: "orders", backend: { kind: { case: "guard", value: {} } } },
    });
    service = createServer({ keepAliveTimeout: 60_000 }, (request, response) =>
      request.resume().on("end", () => response.end("of the service")),
    ).listen(0, "127.0.0.1");
    await once(service, "listening");
    const [first, ...others] = fleet.members.map(({ publicUrl }) => new URL(publicUrl).host);
    nginx = await startGuardProxy("nginx", {
      folder: folders.create(),
      keyruns: [first!, ...others],
      service: `127.0.0.1:${(service.address() as AddressInfo).port}`,
    });
    const { members, serviceToken } = fleet;
    const data: RecorderData = {
      // Callers know nginx alone, which asks one instance after the other.
      addresses: members.map(({ internalUrl }) => ({ publicUrl: nginx.url, internalUrl, serviceToken })),
      entries: ["rest"],
      ...{ lanes: 3, pauseMs: 0, usesAround: 9 },
    };
    recorder = await startThread(new URL("../harness/fleet-recorder.ts", import.meta.url), data);
  });
  afterAll(async () => {
    await recorder?.end();
    await nginx?.close();
    service?.closeAllConnections();
    service?.close();
    await fleet?.close();
    folders.remove();
  });

  test(`and three instances: of ${keysRevoked} keys under load, none passes with a request that is sent after the OK to its revocation`, {
    timeout: 180_000 + keysRevoked * 5_000,
  }, async () => {
    const totals = { before: 0, crossed: 0, inFlight: 0, after: 0, unavailable: 0 };
    const okMs: number[] = [];
    for (let left = keysRevoked; left > 0; left -= keysAtOnce) {
      const keys = Array.from({ length: Math.min(left, keysAtOnce) }, async (_, n) => {
        const { id, teamId, value } = await management.newKey(await management.newTeam());
        return { keyId: id, teamId, value, via: [n % fleet.members.length] };
      });
      const batch = await recorder.calls.begin(await Promise.all(keys));
      // An instance that the machine holds up may say that it can't now.
      const isLeft = (answers: readonly RevokeAnswer[]) => answers.some(({ status }) => status !== 200);
      await eventually(async () => {
        const answers = await recorder.calls.revoke(batch);
        okMs.push(...answers.filter(({ status }) => status === 200).map(({ ms }) => ms));
        return answers;
      }, whileAnswer(isLeft));
      const tally = await recorder.calls.end(batch);
      expect(tally).toMatchObject({ wrong: [], lost: 0 });
      // The keys were in use while they were revoked.
      expect(tally.crossed).toBeGreaterThanOrEqual(keys.length);
      for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += tally[name];
    }
    expect(okMs).toHaveLength(keysRevoked);
    figure("passed before", totals.before);
    figure("in flight at the OK", totals.crossed);
    figure("of them passed", totals.inFlight);
    figure("sent after the OK", totals.after);
    figure("of them passed after the OK", 0);
    figure("answers 503", totals.unavailable);
    timeFigures("a revocation under load", okMs);
  });
});
