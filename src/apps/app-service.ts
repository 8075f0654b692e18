import type { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import type { Clock } from "../clock.ts";
import { bounds } from "../config.ts";
import { fail, unavailable } from "../error.ts";
import { cutPage, readPage } from "../fields/page.ts";
import { readResourceId } from "../fields/resource-id.ts";
import type { ServiceMethods } from "../service-methods.ts";
import { requireTeam, type TeamSource } from "../teams/find-team.ts";
import { readChange, readNewApp, readUpdate } from "./app-fields.ts";
import { appMessage, runnableAppMessage } from "./app-message.ts";
import type { AppRecord, AppStore } from "./app-store.ts";

/**
 * Told of every change after it is durable and before its caller is answered, so that no later run is served from
 * an older copy. The record is absent where the app was deleted.
 */
export type AppsChanged = (appId: string, version: number, app?: AppRecord) => void | Promise<void>;

/** `keyrun.v1.AppService`: the apps, and where their runs are sent. */
export function createAppService(parts: {
  store: AppStore;
  teams: TeamSource;
  clock: Clock;
  appsChanged: AppsChanged;
}): ServiceMethods<typeof AppService> {
  const { store, teams, clock, appsChanged } = parts;
  return {
    async createApp(request) {
      const given = readNewApp(request.app, clock.unixMs());
      await requireTeams(teams, given.teamIds);
      const app = await store.insert(given);
      if (app === undefined) throw fail("APP_EXISTS", { param: "app.id", metadata: { app_id: given.id } });
      await appsChanged(app.id, app.version, app);
      return { app: appMessage(app) };
    },

    async getApp(request) {
      const appId = readResourceId(request.appId, "app_id");
      return { app: appMessage((await store.find(appId)) ?? missing(appId)) };
    },

    async listApps(request) {
      const page = readPage(request, "apps");
      const found = await store.list({ ...page, limit: page.limit + 1 });
      const { items, nextPageToken } = cutPage(found, page, "apps", (app) => app.id);
      return { apps: items.map(appMessage), nextPageToken };
    },

    async updateApp(request) {
      const { app: message, id, paths } = readUpdate(request.app, request.updateMask);
      // What a change keeps of the app is what was read: where another came between, it is read again.
      for (let tries = 0; tries < bounds.appUpdateTriesMax; tries++) {
        const stored = (await store.find(id)) ?? missing(id);
        const change = readChange(message, paths, stored);
        await requireTeams(teams, change.teamIds);
        const app = await store.update(id, change, stored.version);
        if (app === undefined) continue;
        await appsChanged(id, app.version, app);
        return { app: appMessage(app) };
      }
      throw unavailable();
    },

    async deleteApp(request) {
      const appId = readResourceId(request.appId, "app_id");
      await appsChanged(appId, (await store.delete(appId)) ?? missing(appId));
      return {};
    },

    async listRunnableApps(request) {
      const { id: teamId } = await requireTeam(teams, request.teamId);
      const scope = `apps of ${teamId}`;
      const page = readPage(request, scope);
      const found = await store.list({ ...page, limit: page.limit + 1, runnableBy: teamId });
      const { items, nextPageToken } = cutPage(found, page, scope, (app) => app.id);
      return { apps: items.map(runnableAppMessage), nextPageToken };
    },
  };
}

/** No team comes by itself or ever goes: one that is not there is a typo, and the app would be one that nobody can run. */
async function requireTeams(teams: TeamSource, teamIds: readonly string[] = []): Promise<void> {
  for (const teamId of teamIds) {
    if (teams.peek(teamId) ?? (await teams.load(teamId))) continue;
    throw fail("TEAM_NOT_FOUND", {
      param: "app.team_ids",
      problem: `There is no team ${teamId}. Check its id, or create the team first.`,
      metadata: { team_id: teamId },
    });
  }
}

// The table's words are for those who run an app; here there is no team that might not be allowed to.
function missing(appId: string): never {
  throw fail("APP_NOT_FOUND", { problem: "There is no app of this id.", metadata: { app_id: appId } });
}
