import type { AppRecord } from "../apps/app-store.ts";
import { mayRunApp } from "../auth/key-evidence.ts";
import type { KeyPrincipal } from "../auth/principal.ts";
import { isResourceId } from "../base/fields.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail } from "../refusal/refusal.ts";

/** Finds the app of this id that the key may run. Synchronous where the app is in memory. */
export type FindRunnableApp = (
  key: Pick<KeyPrincipal, "teamId" | "restrictions">,
  appId: string,
) => AppRecord | Promise<AppRecord>;

/**
 * Throws APP_NOT_ALLOWED where the key is restricted to other apps, whether or not this one exists.
 * Throws APP_NOT_FOUND, with the same sentence, where the app does not exist, its id can't exist,
 * or the team may not run it.
 */
export function createFindRunnableApp(apps: RecordSource<AppRecord>): FindRunnableApp {
  const check = (teamId: string, appId: string, app: AppRecord | null | undefined): AppRecord => {
    if (app && (app.teamIds.length === 0 || app.teamIds.includes(teamId))) return app;
    throw fail("APP_NOT_FOUND", { param: "app_id", metadata: { app_id: appId } });
  };
  return ({ teamId, restrictions }, appId) => {
    if (!mayRunApp(restrictions, appId)) {
      throw fail("APP_NOT_ALLOWED", { param: "app_id", metadata: { app_id: appId } });
    }
    if (!isResourceId(appId)) return check(teamId, appId, null);
    const held = apps.peek(appId);
    return held === undefined
      ? apps.load(appId).then((app) => check(teamId, appId, app))
      : check(teamId, appId, held);
  };
}
