import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { ControlChange } from "#src/fleet/control-store.ts";
import { bringPlanLimits, type PlanLimits, planLimitsOf } from "#src/fleet/plan-limits.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";

const limits = { free: 60, pro: 600, team: 3_000, enterprise: 10_000 };
const own: PlanLimits = { limits, quotas: { free: { requests: 1_000, period: "day" } } };

test("the limits that were brought hold, and a plan that they don't name has the own limit and no quota", () => {
  expect(planLimitsOf(undefined, own)).toEqual(own);
  const quotas = { pro: { requests: 9, period: "month" } } as const;
  const brought = { order: 1, limits: { free: 10, gold: 9 }, quotas };
  expect(planLimitsOf(brought, own)).toEqual({ limits: { ...limits, free: 10 }, quotas });
});

test("a limit or a quota that is lower than before passes the barrier, and no other change does", async () => {
  const control = memoryControlStore();
  async function bring(changed: Partial<PlanLimits["limits"]>, quotas = own.quotas) {
    const ownId = randomUUID();
    const { leases } = await control.register(ownId, instanceFactsOf());
    const announced: [readonly ControlChange[], { readonly wait: boolean }][] = [];
    const announce = async (...said: (typeof announced)[0]) => void announced.push(said);
    const plans = { limits: { ...limits, ...changed }, quotas };
    await bringPlanLimits(control, { announce, members: () => ({ ownId, leases }) }, plans);
    return announced;
  }
  expect(await bring({})).toEqual([]);
  expect(await bring({ pro: 700 })).toEqual([]);
  const lowered = [[{ kind: "plan-limits", id: "", version: 0 }], { wait: true }];
  expect(await bring({ free: 100, pro: 699 })).toEqual([lowered]);
  expect(await bring({ free: 100, pro: 699 })).toEqual([]);
  expect(await bring({})).toEqual([lowered]);
  expect(await bring({}, { free: { requests: 2_000, period: "day" } })).toEqual([]);
  expect(await bring({}, { free: { requests: 1_999, period: "day" } })).toEqual([lowered]);
  expect(await bring({}, { free: { requests: 9_999, period: "month" } })).toEqual([lowered]);
  expect(await bring({}, {})).toEqual([]);
  expect(await bring({})).toEqual([lowered]);
});

test("an instance that was taken out before it could bring its limits fails to start", async () => {
  const control = memoryControlStore();
  const taken = { announce: async () => {}, members: () => ({ ownId: undefined, leases: [] }) };
  await expect(bringPlanLimits(control, taken, own)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect((await control.read()).planLimits).toBeUndefined();
});
