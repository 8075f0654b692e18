import type { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import type { ServiceMethods } from "../auth/service-methods.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { Clock } from "../clock.ts";
import { cutPage, readPage } from "../fields/page.ts";
import { readResourceId } from "../fields/resource-id.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { fail, unavailable } from "../refusal/refusal.ts";
import { requireTeam } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { readChange, readNewApp, readUpdate } from "./app-fields.ts";
import { appMessage, runnableAppMessage } from "./app-message.ts";
import type { AppRecord, AppStore } from "./app-store.ts";

/** `keyrun.v1.AppService`: the apps, and where their runs are sent. */
export function createAppService(parts: {
  store: AppStore;
  teams: RecordSource<TeamRecord>;
  clock: Clock;
  changeSecurityState: ChangeSecurityState<"app", FlooredChange<AppRecord>>;
}): ServiceMethods<typeof AppService> {
  const { store, teams, clock, changeSecurityState } = parts;
  return {
    async createApp(request) {
      const given = readNewApp(request.app, clock.unixMs());
      await requireTeams(teams, given.teamIds);
      const created = await changeSecurityState("app", async () => changeOf(await store.insert(given)));
      if (!created) throw fail("APP_EXISTS", { param: "app.id", metadata: { app_id: given.id } });
      return { app: appMessage(created.value) };
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
      // A change keeps fields of the app that was read. Where another change came in between, the
      // app is read again.
      for (let tries = 0; tries < bounds.appUpdateTriesMax; tries++) {
        const stored = (await store.find(id)) ?? missing(id);
        const change = readChange(message, paths, stored);
        await requireTeams(teams, change.teamIds);
        const changed = await changeSecurityState("app", async () =>
          changeOf(await store.update(id, change, stored.version)),
        );
        if (changed) return { app: appMessage(changed.value) };
      }
      throw unavailable();
    },

    async deleteApp(request) {
      const appId = readResourceId(request.appId, "app_id");
      let isDeletedNow = false;
      await changeSecurityState("app", async () => {
        const deleted = await store.delete(appId);
        isDeletedNow = deleted !== undefined;
        // The reply to an earlier deletion may have been lost. Then cached copies are still valid.
        const version = deleted ?? (await store.deletedVersion(appId));
        return version === undefined ? undefined : { id: appId, version };
      });
      return isDeletedNow ? {} : missing(appId);
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

function changeOf(app: AppRecord | undefined) {
  return app && { id: app.id, version: app.version, value: app };
}

/**
 * Throws where a team does not exist. Teams are never deleted, so an unknown id is a typo, and
 * nobody could run the app.
 */
async function requireTeams(teams: RecordSource<TeamRecord>, teamIds: readonly string[] = []): Promise<void> {
  for (const teamId of teamIds) {
    if (await teams.load(teamId)) continue;
    throw fail("TEAM_NOT_FOUND", {
      param: "app.team_ids",
      problem: `There is no team ${teamId}. Check its id, or create the team first.`,
      metadata: { team_id: teamId },
    });
  }
}

// The sentence in the table of reasons is for callers who run an app. Here no team's right is in
// question, so the sentence is shorter.
function missing(appId: string): never {
  throw fail("APP_NOT_FOUND", { problem: "There is no app with this id.", metadata: { app_id: appId } });
}
