import type { DatabaseSync } from "node:sqlite";
import { ownTurn } from "../../base/clock.ts";
import type { CountedPage, UsageQuery, UsageStore, UsageSum } from "../../usage/usage-store.ts";
import { checkRecord, usageDayRecord, usageHourRecord } from "../records.ts";
import { answer, columnsOf, writeAside } from "./statement.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;

/** How many hours or days are read at once: a team of 10,000 keys has 40,000 rows in so many. */
const stepsAtOnce = 4;

/** How keys are used, in SQLite. */
export function createUsageStore(db: DatabaseSync): UsageStore {
  const statement = prepare(db);

  function sum(of: Sums, query: UsageQuery, except: readonly CountedPage[]): UsageSum[] {
    const { teamId, keyId, keyIds, fromMs, untilMs } = query;
    // The pages are new as a rule: what is older than all of them is not compared with each.
    const pagesFromMs = Math.min(untilMs, ...except.map(({ startTimeMs }) => startTimeMs));
    const place = [teamId, fromMs, untilMs, JSON.stringify(except), pagesFromMs] as const;
    if (keyIds) return of.ofEach.all(...place, JSON.stringify(keyIds)).map(sumOf);
    return (keyId === undefined ? of.ofAll.all(...place) : of.ofOne.all(...place, keyId)).map(sumOf);
  }

  /** A read stops all other work, and a year of a team may have millions of rows. */
  async function sumInTurns(
    of: Sums,
    {
      except,
      stepMs,
      ...query
    }: UsageQuery & { readonly except: readonly CountedPage[]; readonly stepMs: number },
  ): Promise<UsageSum[]> {
    const sums: UsageSum[] = [];
    for (let { fromMs } = query; fromMs < query.untilMs; fromMs += stepsAtOnce * stepMs) {
      const part = { ...query, fromMs, untilMs: Math.min(query.untilMs, fromMs + stepsAtOnce * stepMs) };
      await ownTurn();
      for (const each of await answer(() => sum(of, part, except))) sums.push(each);
    }
    return sums;
  }

  return {
    recordHours: (hours) =>
      writeAside(db, () => {
        for (const hour of hours) {
          statement.recordHours.run({ ...checkRecord(usageHourRecord, hour, "usage_hours") });
        }
      }),
    hours: ({ except, ...query }) => sumInTurns(statement.hours, { ...query, except, stepMs: hourMs }),
    days: (query) => sumInTurns(statement.days, { ...query, except: [], stepMs: dayMs }),
    setDay: (teamId, startTimeMs) =>
      writeAside(db, () => void statement.setDay.run(teamId, startTimeMs, startTimeMs + dayMs)),
    newestDay: (teamId) => answer(() => timeOf(statement.newestDay.get(teamId))),
    daysWithHours: (teamId) =>
      answer(() => {
        const days: number[] = [];
        for (let fromMs = 0; ; fromMs = (days.at(-1) ?? 0) + dayMs) {
          const foundMs = timeOf(statement.firstHour.get(teamId, fromMs));
          if (foundMs === undefined) return days;
          days.push(foundMs - (foundMs % dayMs));
        }
      }),
    teamAfter: (teamId) =>
      answer(() => {
        const found = statement.teamAfter.get(teamId)?.team_id;
        return typeof found === "string" ? found : undefined;
      }),
    deleteHours: (teamId, { beforeMs, limit }) =>
      writeAside(db, () => Number(statement.deleteHours.run(teamId, beforeMs, limit).changes)),
    deleteDays: (teamId, { beforeMs, limit }) =>
      writeAside(db, () => Number(statement.deleteDays.run(teamId, beforeMs, limit).changes)),
  };
}

const hour = columnsOf(usageHourRecord.shape);
const day = columnsOf(usageDayRecord.shape);
const counts = ["accepted_count", "limited_count", "failed_count", "app_ms"];
const sums = counts.map((column) => `sum(${column})`).join(", ");
const larger = (table: string) =>
  counts.map((column) => `${column} = max(${table}.${column}, excluded.${column})`).join(", ");

type Sums = ReturnType<typeof prepareSums>;

function prepareSums(db: DatabaseSync, table: "usage_hours" | "usage_days") {
  const except = `AND (start_time_ms < ?5 OR (start_time_ms, incarnation) NOT IN (
    SELECT value ->> 'startTimeMs', value ->> 'incarnation' FROM json_each(?4)))`;
  const time = `team_id = ?1 AND start_time_ms >= ?2 AND start_time_ms < ?3
    ${table === "usage_hours" ? except : "AND ?4 IS NOT NULL AND ?5 IS NOT NULL"}`;
  const named = counts.map((column) => `sum(${column}) AS ${column}`).join(", ");
  const all = `SELECT start_time_ms, '' AS key_id, ${named} FROM ${table}`;
  return {
    ofAll: db.prepare(`${all} WHERE ${time} GROUP BY start_time_ms`),
    ofOne: db.prepare(`${all} INDEXED BY ${table}_by_key WHERE ${time} AND key_id = ?6
      GROUP BY start_time_ms`),
    ofEach: db.prepare(`SELECT start_time_ms, key_id, ${named} FROM ${table} NOT INDEXED
      WHERE ${time} AND key_id IN (SELECT value FROM json_each(?6)) GROUP BY start_time_ms, key_id`),
  };
}

function prepare(db: DatabaseSync) {
  const removal = (table: string, key: string) =>
    db.prepare(`DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table}
      WHERE team_id = ?1 AND start_time_ms < ?2 LIMIT max(?3, 0))`);
  return {
    recordHours: db.prepare(`INSERT INTO usage_hours (${hour.names}) VALUES (${hour.values})
      ON CONFLICT DO UPDATE SET ${larger("usage_hours")}`),
    hours: prepareSums(db, "usage_hours"),
    days: prepareSums(db, "usage_days"),
    setDay: db.prepare(`INSERT INTO usage_days (${day.names})
      SELECT team_id, key_id, ?2, ${sums} FROM usage_hours
      WHERE team_id = ?1 AND start_time_ms >= ?2 AND start_time_ms < ?3 GROUP BY key_id
      ON CONFLICT DO UPDATE SET ${larger("usage_days")}`),
    newestDay: db.prepare("SELECT max(start_time_ms) AS time FROM usage_days WHERE team_id = ?"),
    firstHour: db.prepare(
      "SELECT min(start_time_ms) AS time FROM usage_hours WHERE team_id = ? AND start_time_ms >= ?",
    ),
    teamAfter: db.prepare(`SELECT min(team_id) AS team_id FROM (
      SELECT min(team_id) AS team_id FROM usage_hours WHERE team_id > ?1
      UNION ALL SELECT min(team_id) FROM usage_days WHERE team_id > ?1)`),
    deleteHours: removal("usage_hours", "team_id, start_time_ms, key_id, incarnation"),
    deleteDays: removal("usage_days", "team_id, start_time_ms, key_id"),
  };
}

function timeOf(row: Record<string, unknown> | undefined): number | undefined {
  return typeof row?.time === "number" ? row.time : undefined;
}

function sumOf(row: Record<string, unknown>): UsageSum {
  return {
    startTimeMs: Number(row.start_time_ms),
    keyId: String(row.key_id),
    acceptedCount: Number(row.accepted_count),
    limitedCount: Number(row.limited_count),
    failedCount: Number(row.failed_count),
    appMs: Number(row.app_ms),
  };
}
