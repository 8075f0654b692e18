import type { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import { fail } from "../error.ts";
import { isResourceId } from "../fields/resource-id.ts";
import type { ServiceMethods } from "../service-methods.ts";
import type { Runner } from "./runner.ts";

/** Where apps are found: a cache above the store. */
export interface AppSource {
  peek(appId: string): AppRecord | null | undefined;
  load(appId: string): Promise<AppRecord | undefined>;
}

/** Finds the app of this id that the team may run; answers without a promise where it is in memory. */
export type FindRunnableApp = (teamId: string, appId: string) => AppRecord | Promise<AppRecord>;

/** Refuses with APP_NOT_FOUND, in the same words, what does not exist, can't exist, or is not for this team. */
export function createFindRunnableApp(apps: AppSource): FindRunnableApp {
  const check = (teamId: string, appId: string, app: AppRecord | null | undefined): AppRecord => {
    if (app && (app.teamIds.length === 0 || app.teamIds.includes(teamId))) return app;
    throw fail("APP_NOT_FOUND", { param: "app_id", metadata: { app_id: appId.slice(0, 63) } });
  };
  return (teamId, appId) => {
    if (!isResourceId(appId)) return check(teamId, appId, null);
    const held = apps.peek(appId);
    return held === undefined
      ? apps.load(appId).then((app) => check(teamId, appId, app))
      : check(teamId, appId, held);
  };
}

/** `keyrun.v1.RunService`. The caller was admitted before: its key proven, its request spent. */
export function createRunService(parts: {
  findRunnableApp: FindRunnableApp;
  run: Runner;
  newRunId: () => string;
}): ServiceMethods<typeof RunService> {
  return {
    async runApp({ appId, text }, call) {
      const { principal, requestId } = call;
      if (principal.kind !== "api_key") throw fail("INVALID_CREDENTIAL");
      const { teamId } = principal;
      const app = await parts.findRunnableApp(teamId, appId);
      if (text === undefined) {
        throw fail("INVALID_ARGUMENT", {
          param: "text",
          problem: "text is required: a string, which may be empty.",
        });
      }
      const runId = parts.newRunId();
      const output = await parts.run({
        runId,
        teamId,
        app,
        text,
        requestId,
        // Asked for only by apps that take time: the door makes it then.
        get signal() {
          return call.signal;
        },
      });
      return { runId, appId: app.id, text: output };
    },
  };
}
