import type { Duration, FieldMask } from "@bufbuild/protobuf/wkt";
import type { App } from "#gen/keyrun/v1/app_pb.ts";
import { readDisplayName, readResourceId } from "../base/fields.ts";
import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";
import type { AppChange, AppRecord, NewApp } from "./app-store.ts";
import { readBackend } from "./backend-fields.ts";

/**
 * A new app from its message, with the defaults filled in. Throws INVALID_ARGUMENT, naming the
 * field.
 */
export function readNewApp(app: App | undefined, createTimeMs: number): NewApp {
  if (app === undefined) throw missingApp();
  const id = readResourceId(app.id, "app.id");
  return {
    id,
    displayName: readName(app, id),
    backend: readBackend(app.backend, undefined),
    timeoutMs: readTimeoutMs(app.timeout, runTimeout),
    streamTimeoutMs: readTimeoutMs(app.streamTimeout, streamTimeout),
    teamIds: readTeamIds(app.teamIds),
    createTimeMs,
  };
}

/** The app that an update is about, and the fields that it changes. Throws as `readNewApp` does. */
export function readUpdate(app: App | undefined, mask: FieldMask | undefined) {
  if (app === undefined) throw missingApp();
  return { app, id: readResourceId(app.id, "app.id"), paths: readMask(mask) };
}

/**
 * The new values of the named fields; an absent one takes its default. Throws as `readNewApp` does.
 */
export function readChange(app: App, paths: ReadonlySet<UpdatePath>, stored: AppRecord): AppChange {
  return {
    ...(paths.has("display_name") && { displayName: readName(app, stored.id) }),
    ...(paths.has("backend") && { backend: readBackend(app.backend, stored.backend) }),
    ...(paths.has("timeout") && { timeoutMs: readTimeoutMs(app.timeout, runTimeout) }),
    ...(paths.has("stream_timeout") && {
      streamTimeoutMs: readTimeoutMs(app.streamTimeout, streamTimeout),
    }),
    ...(paths.has("team_ids") && { teamIds: readTeamIds(app.teamIds) }),
  };
}

export type UpdatePath = (typeof updatePaths)[number];
const updatePaths = ["display_name", "backend", "timeout", "stream_timeout", "team_ids"] as const;

function readMask(mask: FieldMask | undefined): ReadonlySet<UpdatePath> {
  const named = new Set<UpdatePath>();
  for (const path of mask?.paths ?? []) {
    const known = updatePaths.find((updatePath) => updatePath === path);
    if (known === undefined) {
      throw invalid("update_mask", `update_mask may name ${updatePaths.join(", ")}, and nothing else.`);
    }
    named.add(known);
  }
  if (named.size > 0) return named;
  throw invalid("update_mask", `update_mask must name what to change: ${updatePaths.join(", ")}.`);
}

function readName(app: App, id: string): string {
  return readDisplayName(app.displayName, "app.display_name") || id;
}

interface TimeoutField {
  readonly param: string;
  readonly msDefault: number;
  readonly msMax: number;
}

const runTimeout: TimeoutField = {
  param: "app.timeout",
  msDefault: bounds.appTimeoutMsMax,
  msMax: bounds.appTimeoutMsMax,
};
const streamTimeout: TimeoutField = {
  param: "app.stream_timeout",
  msDefault: bounds.appStreamTimeoutMsDefault,
  msMax: bounds.appStreamTimeoutMsMax,
};

function readTimeoutMs(timeout: Duration | undefined, { param, msDefault, msMax }: TimeoutField): number {
  if (timeout === undefined) return msDefault;
  // Rounded up, so that the shortest timeout is one millisecond and not zero.
  const ms = Number(timeout.seconds) * 1_000 + Math.ceil(timeout.nanos / 1_000_000);
  if (ms > 0 && ms <= msMax) return ms;
  throw invalid(param, `${param} must be more than 0 and at most ${msMax / 1_000} s.`);
}

function readTeamIds(teamIds: readonly string[]): readonly string[] {
  if (teamIds.length > bounds.appTeamsMax) {
    throw invalid(
      "app.team_ids",
      `app.team_ids must name at most ${bounds.appTeamsMax} teams, or none for all.`,
    );
  }
  return [...new Set(teamIds.map((teamId) => readResourceId(teamId, "app.team_ids")))];
}

function missingApp() {
  return invalid("app", "app must be there.");
}

function invalid(param: string, problem: string) {
  return fail("INVALID_ARGUMENT", { param, problem });
}
