import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { leakBounds } from "#src/auth/policy.ts";
import { bounds } from "#src/bounds.ts";
import { checksumOf, createKeyText, redactKeyValue } from "#src/keys/key-value.ts";
import type { Stores } from "#src/store/stores.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { postConnect } from "../harness/post-connect.ts";
import { type LeakReporter, leakPath, leakReporters } from "./leak-reporters.ts";

const clock = createManualClock();
const store = { reads: 0, revocations: 0, held: [] as (() => void)[], hold: false };
let overloaded = false;

const keyrun = closedAtEnd(
  await startKeyrun({
    clock,
    logLevel: "trace",
    settings: { KEYRUN_TRUST_PROXY: "1", KEYRUN_ACCESS_LOG: "true", KEYRUN_PLAN_LIMITS: "free=100000" },
    load: { sheds: () => overloaded },
    onStores: watched,
  }),
);
beforeEach(() => {
  overloaded = false;
});

/** The real stores; reads and revocations of keys are counted, and a test can hold up the reads. */
function watched(stores: Stores): Stores {
  const { keys } = stores;
  return {
    ...stores,
    keys: {
      ...keys,
      async find(keyId) {
        store.reads += 1;
        if (store.hold) await new Promise<void>((resolve) => store.held.push(resolve));
        return keys.find(keyId);
      },
      revoke(order) {
        store.revocations += 1;
        return keys.revoke(order);
      },
    },
  };
}

function release(): void {
  store.hold = false;
  for (const go of store.held.splice(0)) go();
}

let addressCount = 0;
function newAddress(): string {
  addressCount += 1;
  return `198.51.100.${addressCount}`;
}

const newKey = async () => keyrun.newKey(await keyrun.newTeam());
const runStatus = async (value: string) => (await restRun(keyrun.publicUrl, { value })).status;
const revokedBy = async ({ teamId, id }: { teamId: string; id: string }) =>
  (await keyrun.keys.listKeys({ teamId, showRevoked: true })).keys.find((key) => key.id === id)?.revokedBy;

/** A whole value with a right checksum, of an id that exists and another secret. */
function wrongSecretOf(value: string): string {
  const unchecked = value.slice(0, 29) + keyrun.unknownKey().slice(29, 72);
  return unchecked + checksumOf(unchecked);
}

describe.each(Object.entries(leakReporters))("over %s", (_, make) => {
  let reporter: LeakReporter;
  beforeAll(() => {
    reporter = make(keyrun.publicUrl);
  });
  afterAll(() => reporter.close());
  const from = (address: string) => ({ "x-forwarded-for": address });

  test("whoever has a key revokes it without a credential, at once and for ever, and is told what and when", async () => {
    const key = await newKey();
    expect(await runStatus(key.value)).toBe(200);
    const { reason, answer } = await reporter.report(key.value, from(newAddress()));
    expect(reason).toBe("OK");
    expect(answer).toEqual({
      redactedValue: redactKeyValue(key.value),
      revokeTime: new Date(clock.unixMs()).toISOString().replace(".000Z", "Z"),
    });
    expect(await runStatus(key.value)).toBe(401);
    expect(await revokedBy(key)).toBe("a leak report");
  });

  test("a repeat writes nothing and answers with the first time, whoever revoked the key", async () => {
    const byReport = await newKey();
    const byService = await newKey();
    const first = await reporter.report(byReport.value, from(newAddress()));
    await keyrun.keys.revokeKey({ teamId: byService.teamId, keyId: byService.id });
    const writesBefore = store.revocations;
    for (const waitMs of [1_000, leakBounds.revocationKnownMs]) {
      clock.advance(waitMs);
      expect((await reporter.report(byReport.value, from(newAddress()))).answer).toEqual(first.answer);
      const { answer } = await reporter.report(byService.value, from(newAddress()));
      expect(answer?.revokeTime).toBe(first.answer?.revokeTime);
    }
    expect(store.revocations).toBe(writesBefore);
    expect(await revokedBy(byService)).not.toBe("a leak report");
  });

  test("the fleet is told of a revocation once, so a repeat is one look-up", async () => {
    const [byReport, byService] = [await newKey(), await newKey()];
    await reporter.report(byReport.value, from(newAddress()));
    await keyrun.keys.revokeKey({ teamId: byService.teamId, keyId: byService.id });
    const readsOf = async ({ value }: { value: string }) => {
      const readsBefore = store.reads;
      expect((await reporter.report(value, from(newAddress()))).reason).toBe("OK");
      return store.reads - readsBefore;
    };
    expect([await readsOf(byReport), await readsOf(byReport)]).toEqual([1, 1]);
    expect([await readsOf(byService), await readsOf(byService)]).toEqual([2, 1]);
  });

  test("an unknown id and a wrong secret are refused alike, in words, headers and work", async () => {
    const key = await newKey();
    await runStatus(key.value);
    const seen: unknown[] = [];
    for (const value of [keyrun.unknownKey(), wrongSecretOf(key.value)]) {
      const readsBefore = store.reads;
      const { headers, ...outcome } = await reporter.report(value, from(newAddress()));
      const named = [...headers].filter(([name]) => !/^(date|x-request-id)$/.test(name));
      seen.push({ outcome, named, reads: store.reads - readsBefore });
    }
    expect(seen[0]).toEqual(seen[1]);
    expect(seen[0]).toMatchObject({
      outcome: { reason: "KEY_NOT_FOUND", message: "There is no key with this value." },
      reads: 1,
    });
    expect(await runStatus(key.value)).toBe(200);
  });

  test("what is not a whole key is refused without a look-up, and never repeated", async () => {
    const { value } = await newKey();
    const address = newAddress();
    const readsBefore = store.reads;
    const cut = value.slice(0, -1);
    const wrongChecksum = `${cut}${value.endsWith("0") ? "1" : "0"}`;
    for (const wrong of ["", cut, `${value}0`, ` ${value}`, wrongChecksum, `acme${value.slice(3)}`]) {
      const { reason, message, headers } = await reporter.report(wrong, from(address));
      expect([reason, wrong]).toEqual(["INVALID_ARGUMENT", wrong]);
      expect(message).not.toContain(value.slice(4, 20));
      expect(headers.get("ratelimit-remaining")).toBe("60");
    }
    expect(store.reads).toBe(readsBefore);
    expect(await runStatus(value)).toBe(200);
  });

  test("a key that the cache holds as absent is looked up in the store", async () => {
    const unknown = keyrun.unknownKey();
    expect(await runStatus(unknown)).toBe(401);
    const readsBefore = store.reads;
    await reporter.report(unknown, from(newAddress()));
    expect(store.reads).toBe(readsBefore + 1);
  });

  test("a valid key spends nothing of its address's allowance, and any other look-up one", async () => {
    const address = newAddress();
    const left = async (value: string) =>
      (await reporter.report(value, from(address))).headers.get("ratelimit");
    const { value } = await newKey();
    expect(await left(value)).toBe('"address";r=60;t=0');
    expect(await left(value)).toBe('"address";r=59;t=60');
    expect(await left(keyrun.unknownKey())).toBe('"address";r=58;t=60');
  });

  test("an address past its allowance is looked up one at a time, then refused with 503, and nobody else is", async () => {
    const address = newAddress();
    for (let n = 0; n < bounds.addressLookupsMax; n++)
      await reporter.report(keyrun.unknownKey(), from(address));
    store.hold = true;
    const first = reporter.report(keyrun.unknownKey(), from(address));
    await expect.poll(() => store.held.length).toBe(1);
    expect((await reporter.report(keyrun.unknownKey(), from(address))).reason).toBe("UNAVAILABLE");
    expect(store.held).toHaveLength(1);
    const other = reporter.report((await newKey()).value, from(newAddress()));
    release();
    expect([(await first).reason, (await other).reason]).toEqual(["KEY_NOT_FOUND", "OK"]);
    const { value } = await newKey();
    expect((await reporter.report(value, from(address))).reason).toBe("OK");
  });

  test("a report is served however much there is to do: revocations are never shed", async () => {
    const { value } = await newKey();
    overloaded = true;
    expect((await reporter.report(value, from(newAddress()))).reason).toBe("OK");
    overloaded = false;
    expect(await runStatus(value)).toBe(401);
  });

  test("a request longer than any key is refused unread", async () => {
    const { reason } = await reporter.report("a".repeat(leakBounds.reportBytesMax + 1), from(newAddress()));
    expect(["REQUEST_TOO_LARGE", "TOO_LARGE"]).toContain(reason);
  });

  test("reports of one key that come at once are one revocation", async () => {
    const { value } = await newKey();
    const writesBefore = store.revocations;
    const address = newAddress();
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => reporter.report(value, from(address))),
    );
    expect(new Set(outcomes.map(({ reason }) => reason))).toEqual(new Set(["OK"]));
    expect(new Set(outcomes.map(({ answer }) => answer?.revokeTime)).size).toBe(1);
    expect(store.revocations).toBe(writesBefore + 1);
  });
});

test("reports of many addresses at once never hold more look-ups than their own share", async () => {
  const reporter = leakReporters["REST over HTTP/1.1"]!(keyrun.publicUrl);
  expect(leakBounds.reportsAtOnceMax).toBeLessThan(bounds.lookupsMax / 4);
  store.hold = true;
  const reports = Array.from({ length: 2 * leakBounds.reportsAtOnceMax }, () =>
    reporter.report(keyrun.unknownKey(), { "x-forwarded-for": newAddress() }),
  );
  await expect.poll(() => store.held.length).toBe(leakBounds.reportsAtOnceMax);
  // The end of one makes room for one.
  const readsBefore = store.reads;
  store.held.shift()?.();
  await expect.poll(() => store.reads).toBe(readsBefore + 1);
  expect(store.held).toHaveLength(leakBounds.reportsAtOnceMax);
  release();
  const outcomes = await Promise.all(reports);
  expect(new Set(outcomes.map(({ reason }) => reason))).toEqual(new Set(["KEY_NOT_FOUND"]));
  reporter.close();
});

test("a credential changes nothing: a wrong one does not refuse the report, and a right one proves no other key", async () => {
  const reporter = leakReporters["REST over HTTP/1.1"]!(keyrun.publicUrl);
  const [mine, found] = [await newKey(), await newKey()];
  const authorization = `Bearer ${mine.value}`;
  expect((await reporter.report(found.value, { authorization: "Basic x" })).reason).toBe("OK");
  expect((await reporter.report(keyrun.unknownKey(), { authorization })).reason).toBe("KEY_NOT_FOUND");
  expect(await runStatus(mine.value)).toBe(200);
});

test("on the internal listener a service reports, and nobody else", async () => {
  const { value } = await newKey();
  const refused = await postConnect(keyrun.internalUrl, "KeyService/RevokeLeakedKey", {
    token: value,
    body: JSON.stringify({ value }),
  });
  expect(refused.status).toBe(401);
  expect(await runStatus(value)).toBe(200);
  const { redactedValue } = await keyrun.keys.revokeLeakedKey({ value });
  expect(redactedValue).toBe(redactKeyValue(value));
  expect(await runStatus(value)).toBe(401);
});

test("a key that is deleted with its team is refused as unknown", async () => {
  const key = await newKey();
  await keyrun.keys.revokeKey({ teamId: key.teamId, keyId: key.id });
  await keyrun.teams.deleteTeam({ teamId: key.teamId });
  const reporter = leakReporters["REST over HTTP/1.1"]!(keyrun.publicUrl);
  expect((await reporter.report(key.value)).reason).toBe("KEY_NOT_FOUND");
});

test("the value is taken from the body alone, as JSON in a POST", async () => {
  const { value } = await newKey();
  const post = (path: string, init: RequestInit = {}) =>
    fetch(keyrun.publicUrl + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      ...init,
    });
  const body = JSON.stringify({ value });
  const answers = [
    await fetch(`${keyrun.publicUrl}${leakPath}?value=${value}`),
    await post(`${leakPath}?value=${value}`, { body: "{}" }),
    await post(leakPath, { body: `value=${value}`, headers: { "content-type": "text/plain" } }),
    await post(leakPath, { body: `{"value":${value}` }),
    await post(leakPath, { body: JSON.stringify({ value, team_id: "demo" }) }),
    await post(leakPath, { body: `{"value":"x","value":"${value}"}` }),
    await post(leakPath, { body: `{"value":"x","v\\u0061lue":"${value}"}` }),
    await post(`${leakPath}/`, { body }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([405, 400, 415, 400, 400, 400, 400, 404]);
  for (const answer of answers) expect(await answer.text()).not.toContain(value.slice(29));
  expect(await runStatus(value)).toBe(200);
  const problem = await post(leakPath, {
    body: "{}",
    headers: { "content-type": "application/json", accept: "application/problem+json" },
  });
  expect(await problem.json()).toMatchObject({ code: "invalid_argument", param: "value", status: 400 });
});

test("no log line, no line of the access log, no metric and no answer has told a secret", async () => {
  const key = await newKey();
  const values = [key.value, wrongSecretOf(key.value), keyrun.unknownKey(), `${key.value}x`];
  for (const make of Object.values(leakReporters)) {
    const reporter = make(keyrun.publicUrl);
    for (const value of values) {
      const outcome = await reporter.report(value);
      expect(JSON.stringify([outcome, [...outcome.headers]])).not.toContain(value.slice(29, 60));
    }
    reporter.close();
  }
  const headers = { authorization: `Bearer ${keyrun.serviceToken}` };
  const metrics = await (await fetch(`${keyrun.internalUrl}/metrics`, { headers })).text();
  const told = [...keyrun.logLines, ...keyrun.accessLines, metrics].join("\n");
  expect(keyrun.accessLines.join("\n")).toContain(key.id);
  for (const value of values) expect(told).not.toContain(value.slice(29, 60));
  // Not of any test above, either: all of their values have this form.
  expect(told).not.toMatch(new RegExp(createKeyText("svc").pattern));
});
