import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { checkPolicy, credentialOf, isActivity, namesTeam, roleOf } from "#src/auth/policy.ts";

const services = [
  ...[RunService, KeyService, TeamService, AppService, SessionService, FleetService],
  ServiceTokenService,
  AuditService,
];
const page = readFileSync("docs/service-tokens.md", "utf8");
const methods = services.flatMap((service) => service.methods);

test("every method that takes a service has its least role, and no other method has one", () => {
  for (const method of methods) {
    const takesService = credentialOf(method, "internal") === "service";
    expect(roleOf(method) !== undefined, method.toString()).toBe(takesService);
  }
});

test("every method that is limited to a service's teams names a team in its request", () => {
  const limited = methods.filter((method) => roleOf(method) === "manage");
  expect(limited.length).toBeGreaterThan(5);
  expect(limited.filter((method) => !namesTeam(method))).toEqual([]);
});

test.each(["verify", "manage", "metrics"])(
  "the page of service tokens names the methods of %s, and no other",
  (role) => {
    const row = page.split("\n").find((line) => line.startsWith(`| \`${role}\` |`)) ?? "";
    const named = [...row.matchAll(/`([A-Z][A-Za-z]+)`/g)].map(([, name]) => name);
    const allowed = methods.filter((method) => roleOf(method) === role).map(({ name }) => name);
    expect(named.toSorted()).toEqual(allowed.toSorted());
  },
);

test("what only reads, as the screen does by itself, is no activity of a session; a change is one", () => {
  const { createKey, updateKey, rotateKey, revokeKey, listKeys, watchKeys, getUsage } = KeyService.method;
  expect([createKey, updateKey, rotateKey, revokeKey].map(isActivity)).toEqual([true, true, true, true]);
  const reading = [listKeys, watchKeys, getUsage, AppService.method.listRunnableApps];
  expect(reading.map(isActivity)).toEqual([false, false, false, false]);
});

test("a method without a row, or a row without its method, stops the start", () => {
  expect(() => checkPolicy(services.slice(1))).toThrow("not served: keyrun.v1.RunService.RunApp");
});
