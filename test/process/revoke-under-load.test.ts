import { afterAll, beforeAll, expect, test } from "vitest";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { type KeyEntry, type KeyUse, openKeyEntries } from "../harness/key-entries.ts";
import { manage } from "../harness/keyrun.ts";
import { type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { openRevocations, type Revocations, usesAtOk } from "../harness/revocations.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
let keyrun: ServingKeyrun;
let management: ReturnType<typeof manage>;
let entries: KeyEntry[];
let revocations: Revocations;

beforeAll(async () => {
  keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" });
  management = manage(keyrun.internalUrl, keyrun.serviceToken());
  entries = openKeyEntries(keyrun);
  revocations = await openRevocations(keyrun);
});

afterAll(async () => {
  await revocations.close();
  for (const entry of entries) entry.close();
  management.disconnect();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
  folders.remove();
});

const keysRevoked = campaignSize("revocations");
/** Keys that are used and revoked at the same time. */
const keysAtOnce = 4;
/** Requests that wait for their answer at the same time, for each key and entry. */
const usesAtOnce = 2;
/** Uses of each entry that must be answered before the revocation, and after it. */
const usesAround = 3;

const totals = { before: 0, inFlight: 0, inFlightAccepted: 0, after: 0, afterAccepted: 0 };

test(`of ${keysRevoked} keys under load, none is accepted by a request that is sent after the OK to its revocation`, {
  timeout: 180_000 + keysRevoked * 5_000,
}, async () => {
  let left = keysRevoked;
  const lane = async () => {
    while (left-- > 0) await revokeUnderLoad();
  };
  await Promise.all(Array.from({ length: keysAtOnce }, lane));
  const { before, inFlight, inFlightAccepted, after, afterAccepted } = totals;
  figure("accepted before", before);
  figure("in flight at the OK", inFlight);
  figure("of them accepted", inFlightAccepted);
  figure("sent after the OK", after);
  figure("of them accepted after the OK", afterAccepted);
  expect(afterAccepted).toBe(0);
});

/** One request. Its place in the order of events is `sent`, before its bytes are written. */
interface Use {
  readonly sent: "before" | "after";
  /** Whether it was answered before the OK. */
  readonly answered: "before" | "after";
  readonly kind: KeyUse["kind"];
}

async function revokeUnderLoad(): Promise<void> {
  const key = await management.newKey(await management.newTeam());
  let phase: "before" | "after" = "before";
  const uses = new Map(entries.map((entry) => [entry, [] as Use[]]));
  const counted = (when: "before" | "after") =>
    [...uses.values()].every((each) => each.filter(({ sent }) => sent === when).length >= usesAround);
  const enough = Promise.withResolvers<void>();
  const use = async (entry: KeyEntry) => {
    while (!counted("after")) {
      const sent = phase;
      const { kind } = await entry.use(key.value);
      uses.get(entry)?.push({ sent, answered: phase, kind });
      if (counted("before")) enough.resolve();
    }
  };
  const load = Promise.all(entries.flatMap((entry) => Array.from({ length: usesAtOnce }, () => use(entry))));
  await Promise.race([enough.promise, load]);
  const { acceptedAtOnce } = await revocations.revoke({ ...key, keyId: key.id });
  phase = "after";
  expect(await acceptedAtOnce).toEqual([]);
  totals.after += usesAtOk;
  await load;
  count([...uses.values()].flat());
}

function count(uses: readonly Use[]): void {
  const before = uses.filter(({ answered, kind }) => answered === "before" && kind === "accepted");
  const inFlight = uses.filter(({ sent, answered }) => sent === "before" && answered === "after");
  const after = uses.filter(({ sent }) => sent === "after");
  // The key worked through every entry, and was in use while it was revoked.
  expect(before.length).toBeGreaterThanOrEqual(entries.length * usesAround);
  expect(inFlight.length).toBeGreaterThan(0);
  expect(uses.map(({ kind }) => kind)).not.toContain("limited");
  totals.before += before.length;
  totals.inFlight += inFlight.length;
  totals.inFlightAccepted += inFlight.filter(({ kind }) => kind === "accepted").length;
  totals.after += after.length;
  totals.afterAccepted += after.filter(({ kind }) => kind === "accepted").length;
}
