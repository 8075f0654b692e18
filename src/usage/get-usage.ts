import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type GetUsageRequest,
  type KeyService,
  type KeyUsageSchema,
  type UsagePointSchema,
  UsageStep,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { keyNotFound } from "../keys/key-message.ts";
import type { KeyStore } from "../keys/key-store.ts";
import { isKeyId } from "../keys/key-value.ts";
import { fail } from "../refusal/refusal.ts";
import { requireTeam } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import {
  dayMs,
  hourMs,
  type UsageQuery,
  type UsageStore,
  type UsageSum,
  usageBounds,
} from "./usage-store.ts";

/** The method `GetUsage` of `keyrun.v1.KeyService`. */
export function createGetUsage({
  clock,
  teams,
  keys,
  read,
}: {
  readonly clock: Clock;
  readonly teams: RecordSource<TeamRecord>;
  readonly keys: Pick<KeyStore, "find">;
  readonly read: ReadUsage;
}): ServiceMethods<typeof KeyService>["getUsage"] {
  return async (request) => {
    const team = await requireTeam(teams, request.teamId);
    const time = readTime(request, clock.unixMs());
    const keyId = await requireKey(keys, request);
    const keyIds = readKeyIds(request, time);
    const query = { teamId: team.id, ...time };
    const sums = await read({ ...query, keyId });
    const byKey = keyIds.length > 0 ? await read({ ...query, keyIds }) : [];
    return { points: pointsOf(sums, time), keys: keyUsagesOf(byKey, keyIds, time) };
  };
}

interface Steps {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly stepMs: number;
}

function readTime({ startTime, endTime, step }: GetUsageRequest, nowMs: number): Steps {
  const stepMs = readStep(step);
  const endMs = readMs(endTime, "end_time") ?? nowMs;
  const spanMs = stepMs === dayMs ? 30 * dayMs : dayMs;
  const startMs = readMs(startTime, "start_time") ?? Math.max(0, endMs - spanMs);
  if (startMs > endMs) refuse("start_time", "start_time must not be after end_time.");
  const fromMs = Math.floor(startMs / stepMs) * stepMs;
  const untilMs = (Math.floor(endMs / stepMs) + 1) * stepMs;
  const max = usageBounds.pointsMax;
  if ((untilMs - fromMs) / stepMs > max) {
    const help = "Choose a later time, or longer steps.";
    refuse("start_time", `start_time is too early: an answer has at most ${max} steps. ${help}`);
  }
  return { fromMs, untilMs, stepMs };
}

function readStep(step: UsageStep): number {
  switch (step) {
    case UsageStep.UNSPECIFIED:
    case UsageStep.HOUR:
      return hourMs;
    case UsageStep.DAY:
      return dayMs;
    default:
      return refuse("step", "step must be USAGE_STEP_HOUR or USAGE_STEP_DAY.");
  }
}

function readMs(time: Timestamp | undefined, param: string): number | undefined {
  if (time === undefined) return undefined;
  const ms = Number(time.seconds) * 1_000 + Math.floor(time.nanos / 1e6);
  if (ms >= 0 && ms < tooLateMs) return ms;
  return refuse(param, `${param} must be a time from 1970 to 9999.`);
}

/** The end of the year 9999, which is that of a timestamp, too. */
const tooLateMs = Date.UTC(10_000, 0, 1);

async function requireKey(
  keys: Pick<KeyStore, "find">,
  { teamId, keyId }: GetUsageRequest,
): Promise<string | undefined> {
  if (keyId === "") return undefined;
  if (!isKeyId(keyId)) refuse("key_id", "key_id must be the id of a key, without its prefix.");
  const key = await keys.find(keyId);
  if (key?.teamId !== teamId) throw keyNotFound(teamId, keyId);
  return keyId;
}

function readKeyIds({ keyId, keyIds }: GetUsageRequest, { fromMs, untilMs, stepMs }: Steps): string[] {
  const { listedKeysMax, listedNumbersMax } = usageBounds;
  const ids = [...new Set(keyIds)];
  if (ids.length > 0 && keyId !== "") refuse("key_ids", "Name key_id or key_ids, not both.");
  if (ids.length > listedKeysMax) refuse("key_ids", `key_ids must be at most ${listedKeysMax}.`);
  if (!ids.every(isKeyId)) refuse("key_ids", "key_ids must be ids of keys, without their prefix.");
  if ((ids.length * (untilMs - fromMs)) / stepMs > listedNumbersMax) {
    refuse("key_ids", `Keys times steps must be at most ${listedNumbersMax}.`);
  }
  return ids;
}

function refuse(param: string, problem: string): never {
  throw fail("INVALID_ARGUMENT", { param, problem });
}

function startsOf({ fromMs, untilMs, stepMs }: Steps): number[] {
  return Array.from({ length: (untilMs - fromMs) / stepMs }, (_, n) => fromMs + n * stepMs);
}

function pointsOf(sums: readonly UsageSum[], time: Steps): MessageInitShape<typeof UsagePointSchema>[] {
  const byStart = new Map(sums.map((sum) => [sum.startTimeMs, sum]));
  return startsOf(time).map((startMs) => {
    const { acceptedCount = 0, limitedCount = 0, failedCount = 0, appMs = 0 } = byStart.get(startMs) ?? {};
    return {
      startTime: timestampFromMs(startMs),
      acceptedCount: BigInt(acceptedCount),
      limitedCount: BigInt(limitedCount),
      failedCount: BigInt(failedCount),
      appDuration: durationFromMs(appMs),
    };
  });
}

function keyUsagesOf(
  sums: readonly UsageSum[],
  keyIds: readonly string[],
  time: Steps,
): MessageInitShape<typeof KeyUsageSchema>[] {
  const byKey = Map.groupBy(sums, ({ keyId }) => keyId);
  return keyIds.flatMap((keyId) => {
    const found = byKey.get(keyId);
    if (found === undefined) return [];
    const byStart = new Map(found.map((sum) => [sum.startTimeMs, sum]));
    const countsOf = (name: "acceptedCount" | "limitedCount" | "failedCount") =>
      startsOf(time).map((startMs) => BigInt(byStart.get(startMs)?.[name] ?? 0));
    return [
      {
        keyId,
        acceptedCounts: countsOf("acceptedCount"),
        limitedCounts: countsOf("limitedCount"),
        failedCounts: countsOf("failedCount"),
      },
    ];
  });
}

/**
 * Reads the counts of a time in steps of an hour or a day, after this process has written its own.
 * A step without a count is absent, and no key has a step twice.
 */
export type ReadUsage = (query: UsageQuery & { readonly stepMs: number }) => Promise<UsageSum[]>;

export function createReadUsage(
  store: Pick<UsageStore, "hours" | "days">,
  flush: () => Promise<void>,
): ReadUsage {
  return async ({ stepMs, ...query }) => {
    await flush();
    return stepMs === dayMs ? store.days(query) : store.hours(query);
  };
}
