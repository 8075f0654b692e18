import type { NewApp } from "#src/apps/app-store.ts";
import type { AuditEvent } from "#src/audit/audit-store.ts";
import type { KeyRecord } from "#src/keys/key-store.ts";
import type { RunEnd, RunRecord } from "#src/run/kept/run-store.ts";
import type { ServiceTokenRecord } from "#src/service-tokens/service-token-store.ts";
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
    expireTimeMs: null,
    expiredTimeMs: null,
    replacesKeyId: null,
    replacedByKeyId: null,
    firstKeyId: null,
    pendingSinceMs: null,
    appIds: [],
    requestsPerMinute: null,
    quota: null,
    version: 1,
    ...facts,
  };
}

/** An accepted token without a use. */
export function serviceTokenRecordOf(
  facts: Partial<ServiceTokenRecord> & Pick<ServiceTokenRecord, "id">,
): ServiceTokenRecord {
  return {
    name: "billing",
    role: "verify",
    teamIds: [],
    redactedValue: "keyrunservice_7k3f…x9Qz",
    digest: `digest-of-${facts.id}`,
    secretVersion: "0a1b2c3d",
    createTimeMs: 1_700_000_000_000,
    createdBy: "the command line",
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
    backgroundTimeoutMs: 600_000,
    teamIds: [],
    createTimeMs: 1_700_000_000_000,
    ...facts,
  };
}

export function auditEventOf(facts: Partial<AuditEvent> & Pick<AuditEvent, "id">): AuditEvent {
  return {
    timeMs: 1_700_000_000_000,
    actor: "ada@example.com",
    detail: "",
    address: "203.0.113.7",
    channel: "screen",
    action: "key.create",
    teamId: "demo",
    target: "7k3f0m9x2a4c6e8g1j5n7p9q",
    requestId: "req-1",
    outcome: "done",
    reason: "",
    count: 1,
    ...facts,
  };
}

/** A run under way that its id alone claims. */
export function runRecordOf(facts: Partial<RunRecord> & Pick<RunRecord, "id">): RunRecord {
  return {
    keyHash: facts.id,
    fingerprint: "",
    listed: false,
    teamId: `${facts.id}-team`,
    appId: "report",
    keyId: "key",
    state: "running",
    owner: `${facts.id}-owner`,
    textBytes: null,
    error: null,
    createTimeMs: 1_000,
    endTimeMs: null,
    expireTimeMs: 9_000_000_000_000,
    ...facts,
  };
}

export function runEndOf(text: string | null, facts: Partial<RunEnd> = {}): RunEnd {
  const times = { endTimeMs: 2_000, expireTimeMs: 9_000_000_000_000 };
  return { state: "succeeded", text, error: null, ...times, ...facts };
}
