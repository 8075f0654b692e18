import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { ControlChange } from "#src/fleet/control-store.ts";
import { bringPlanLimits, type PlanLimits, planLimitsOf } from "#src/fleet/plan-limits.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";

const own: PlanLimits = { free: 60, pro: 600, team: 3_000, enterprise: 10_000 };

test("the limits that were brought hold, and a plan that they don't name has the own limit", () => {
  expect(planLimitsOf(undefined, own)).toEqual(own);
  expect(planLimitsOf({ order: 1, limits: { free: 10, gold: 9 } }, own)).toEqual({ ...own, free: 10 });
});

test("a limit that is lower than the one before passes the barrier, and no other change does", async () => {
  const control = memoryControlStore();
  async function bring(limits: Partial<PlanLimits>) {
    const ownId = randomUUID();
    const { leases } = await control.register(ownId, instanceFactsOf());
    const announced: [readonly ControlChange[], { readonly wait: boolean }][] = [];
    const announce = async (...said: (typeof announced)[0]) => void announced.push(said);
    await bringPlanLimits(control, { announce, members: () => ({ ownId, leases }) }, { ...own, ...limits });
    return announced;
  }
  expect(await bring({})).toEqual([]);
  expect(await bring({ pro: 700 })).toEqual([]);
  const lowered = [[{ kind: "plan-limits", id: "", version: 0 }], { wait: true }];
  expect(await bring({ free: 100, pro: 699 })).toEqual([lowered]);
  expect(await bring({ free: 100, pro: 699 })).toEqual([]);
  expect(await bring({})).toEqual([lowered]);
});

test("an instance that was taken out before it could bring its limits fails to start", async () => {
  const control = memoryControlStore();
  const taken = { announce: async () => {}, members: () => ({ ownId: undefined, leases: [] }) };
  await expect(bringPlanLimits(control, taken, own)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect((await control.read()).planLimits).toBeUndefined();
});
