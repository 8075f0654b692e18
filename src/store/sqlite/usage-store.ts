import type { DatabaseSync } from "node:sqlite";
import { ownTurn } from "../../base/clock.ts";
import {
  dayMs,
  hourMs,
  startOfDay,
  type UsageQuery,
  type UsageStore,
  type UsageSum,
  usageRecord,
} from "../../usage/usage-store.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, writeAside } from "./statement.ts";

/** How many hours or days are read at once: a team of 10,000 keys has 40,000 rows in so many. */
const stepsAtOnce = 4;

/**
 * How keys are used, in SQLite. A batch is one transaction, so of one that failed nothing is there.
 */
export function createUsageStore(db: DatabaseSync): UsageStore {
  const statement = prepare(db);

  function sum(of: Sums, { teamId, keyId, keyIds, fromMs, untilMs }: UsageQuery): UsageSum[] {
    const place = [teamId, fromMs, untilMs] as const;
    if (keyIds) return of.ofEach.all(...place, JSON.stringify(keyIds)).map(sumOf);
    return (keyId === undefined ? of.ofAll.all(...place) : of.ofOne.all(...place, keyId)).map(sumOf);
  }

  /** A read stops all other work, and a year of a team may have millions of rows. */
  async function sumInTurns(of: Sums, query: UsageQuery, stepMs: number): Promise<UsageSum[]> {
    const sums: UsageSum[] = [];
    for (let { fromMs } = query; fromMs < query.untilMs; fromMs += stepsAtOnce * stepMs) {
      const part = { ...query, fromMs, untilMs: Math.min(query.untilMs, fromMs + stepsAtOnce * stepMs) };
      await ownTurn();
      for (const each of await answer(() => sum(of, part))) sums.push(each);
    }
    return sums;
  }

  return {
    add: ({ hours }) =>
      writeAside(db, () => {
        for (const each of hours) {
          const hour = checkRecord(usageRecord, each, "usage_hours");
          statement.addToHour.run({ ...hour });
          statement.addToDay.run({ ...hour, startTimeMs: startOfDay(hour.startTimeMs) });
        }
      }),
    hours: (query) => sumInTurns(statement.hours, query, hourMs),
    days: (query) => sumInTurns(statement.days, query, dayMs),
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

type Table = "usage_hours" | "usage_days";
type Sums = ReturnType<typeof prepareSums>;

const { names, values } = columnsOf(usageRecord.shape);
const counts = ["accepted_count", "limited_count", "failed_count", "app_ms"];

function prepare(db: DatabaseSync) {
  return {
    addToHour: prepareAddition(db, "usage_hours"),
    addToDay: prepareAddition(db, "usage_days"),
    hours: prepareSums(db, "usage_hours"),
    days: prepareSums(db, "usage_days"),
    teamAfter: db.prepare(`SELECT min(team_id) AS team_id FROM (
      SELECT min(team_id) AS team_id FROM usage_hours WHERE team_id > ?1
      UNION ALL SELECT min(team_id) FROM usage_days WHERE team_id > ?1)`),
    deleteHours: prepareRemoval(db, "usage_hours"),
    deleteDays: prepareRemoval(db, "usage_days"),
  };
}

function prepareAddition(db: DatabaseSync, table: Table) {
  const sums = counts.map((column) => `${column} = ${table}.${column} + excluded.${column}`).join(", ");
  return db.prepare(`INSERT INTO ${table} (${names}) VALUES (${values}) ON CONFLICT DO UPDATE SET ${sums}`);
}

function prepareSums(db: DatabaseSync, table: Table) {
  const time = "team_id = ?1 AND start_time_ms >= ?2 AND start_time_ms < ?3";
  const named = counts.map((column) => `sum(${column}) AS ${column}`).join(", ");
  const all = `SELECT start_time_ms, '' AS key_id, ${named} FROM ${table}`;
  return {
    ofAll: db.prepare(`${all} WHERE ${time} GROUP BY start_time_ms`),
    ofOne: db.prepare(`${all} INDEXED BY ${table}_by_key WHERE ${time} AND key_id = ?4
      GROUP BY start_time_ms`),
    ofEach: db.prepare(`SELECT start_time_ms, key_id, ${named} FROM ${table} NOT INDEXED
      WHERE ${time} AND key_id IN (SELECT value FROM json_each(?4)) GROUP BY start_time_ms, key_id`),
  };
}

function prepareRemoval(db: DatabaseSync, table: Table) {
  const key = "team_id, start_time_ms, key_id";
  return db.prepare(`DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table}
    WHERE team_id = ?1 AND start_time_ms < ?2 LIMIT max(?3, 0))`);
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
