import type { NewApp } from "#src/apps/app-store.ts";
import type { KeyRecord } from "#src/keys/key-store.ts";
import type { TeamRecord } from "#src/teams/team-store.ts";

/** An active key without a use. `facts` are the fields that matter to the test. */
export function keyRecordOf(facts: Partial<KeyRecord> & Pick<KeyRecord, "id" | "teamId">): KeyRecord {
  return {
    label: "ci",
    redactedValue: "svc_7k3f…x9Qz",
    digest: `digest-of-${facts.id}`,
    secretVersion: "0a1b2c3d",
    requestId: null,
    createTimeMs: 1_700_000_000_000,
    createdBy: "ada@example.com",
    lastUseTimeMs: null,
    revokeTimeMs: null,
    revokedBy: null,
    version: 1,
    ...facts,
  };
}

export function teamRecordOf(facts: Partial<TeamRecord> & Pick<TeamRecord, "id">): TeamRecord {
  return {
    displayName: "Acme",
    plan: "free",
    createTimeMs: 1_700_000_000_000,
    state: "active",
    version: 1,
    ...facts,
  };
}

export function newAppOf(facts: Partial<NewApp> & Pick<NewApp, "id">): NewApp {
  return {
    displayName: "Echo",
    backend: { kind: "echo" },
    timeoutMs: 30_000,
    streamTimeoutMs: 600_000,
    teamIds: [],
    createTimeMs: 1_700_000_000_000,
    ...facts,
  };
}
