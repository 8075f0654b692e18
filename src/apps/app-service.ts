import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { AppBackendSchema, AppSchema } from "#gen/keyrun/v1/app_pb.ts";
import type { AppService, RunnableAppSchema } from "#gen/keyrun/v1/app_service_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import { readResourceId } from "../base/fields.ts";
import { cutPage, readPage } from "../base/page.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { type ChangeSecurityState, changeOf, type FlooredChange, grantOf } from "../fleet/security-state.ts";
import { fail, unavailable } from "../refusal/refusal.ts";
import { requireTeam, whileTeamsStay } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { readChange, readNewApp, readUpdate, redacted } from "./app-fields.ts";
import type { AppChange, AppRecord, AppStore, BackendRecord } from "./app-store.ts";

/** `keyrun.v1.AppService` without `CheckApp`: the apps, and where their runs are sent. */
export function createAppService(parts: {
  store: AppStore;
  teams: RecordSource<TeamRecord>;
  clock: Clock;
  changeSecurityState: ChangeSecurityState<"app", FlooredChange<AppRecord>>;
  /** Ends what runs of the app in the background, but not for these teams. */
  cancelRuns(runs: { readonly appId: string; readonly exceptTeamIds?: readonly string[] }): Promise<void>;
}): Omit<ServiceMethods<typeof AppService>, "checkApp"> {
  const { store, teams, clock, changeSecurityState } = parts;
  const update = (appId: string, change: AppChange, version: number) =>
    changeSecurityState("app", () => store.update(appId, change, version), changeOf);
  /** True if the app was deleted now, and not earlier. */
  async function remove(appId: string): Promise<boolean> {
    const { deleted } = await changeSecurityState(
      "app",
      async () => {
        const deleted = await store.delete(appId);
        // The reply to an earlier deletion may have been lost. Then cached copies are still valid.
        return { deleted, version: deleted ?? (await store.deletedVersion(appId)) };
      },
      ({ version }) => (version === undefined ? undefined : { id: appId, version }),
    );
    return deleted !== undefined;
  }
  return {
    async createApp(request) {
      const given = readNewApp(request.app, clock.unixMs());
      const created = await whileTeamsStay(
        teams,
        { teamIds: given.teamIds, param: "app.team_ids" },
        {
          write: () => changeSecurityState("app", () => store.insert(given), grantOf),
          undo: async (written) => written && (await remove(written.id)),
        },
      );
      if (!created) throw fail("APP_EXISTS", { param: "app.id", metadata: { app_id: given.id } });
      return { app: appMessage(created) };
    },

    async getApp(request) {
      const appId = readResourceId(request.appId, "app_id");
      return { app: appMessage((await store.find(appId)) ?? missingApp(appId)) };
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
        const stored = (await store.find(id)) ?? missingApp(id);
        const change = readChange(message, paths, stored);
        const updated = await whileTeamsStay(
          teams,
          { teamIds: change.teamIds ?? [], param: "app.team_ids" },
          {
            write: () => update(id, change, stored.version),
            undo: async (written) => written && (await update(id, earlier(change, stored), written.version)),
          },
        );
        if (!updated) continue;
        const exceptTeamIds = change.teamIds ?? [];
        if (exceptTeamIds.length > 0) await parts.cancelRuns({ appId: id, exceptTeamIds });
        return { app: appMessage(updated) };
      }
      throw unavailable();
    },

    async deleteApp(request) {
      const appId = readResourceId(request.appId, "app_id");
      const isDeletedNow = await remove(appId);
      // Also where it was deleted before: the end of that deletion may be missing.
      await parts.cancelRuns({ appId });
      return isDeletedNow ? {} : missingApp(appId);
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

/** What the app had in the fields that a change names. */
function earlier(change: AppChange, stored: AppRecord): AppChange {
  const { displayName, backend, timeoutMs, streamTimeoutMs, backgroundTimeoutMs, teamIds } = stored;
  return {
    ...("displayName" in change && { displayName }),
    ...("backend" in change && { backend }),
    ...("timeoutMs" in change && { timeoutMs }),
    ...("streamTimeoutMs" in change && { streamTimeoutMs }),
    ...("backgroundTimeoutMs" in change && { backgroundTimeoutMs }),
    ...("teamIds" in change && { teamIds }),
  };
}

/**
 * The sentence in the table of reasons is for callers who run an app. Here no team's right is in
 * question, so the sentence is shorter.
 */
export function missingApp(appId: string): never {
  throw fail("APP_NOT_FOUND", { problem: `There is no app \`${appId}\`.`, metadata: { app_id: appId } });
}

/**
 * A stored app as internal services see it. Header values are redacted, since they may be
 * credentials.
 */
function appMessage(app: AppRecord): MessageInitShape<typeof AppSchema> {
  return {
    id: app.id,
    displayName: app.displayName,
    backend: backendMessage(app.backend),
    timeout: durationFromMs(app.timeoutMs),
    streamTimeout: durationFromMs(app.streamTimeoutMs),
    backgroundTimeout: durationFromMs(app.backgroundTimeoutMs),
    teamIds: [...app.teamIds],
    createTime: timestampFromMs(app.createTimeMs),
  };
}

/** A stored app as the people who run it see it: without its backend. */
function runnableAppMessage(app: AppRecord): MessageInitShape<typeof RunnableAppSchema> {
  return { id: app.id, displayName: app.displayName, guard: app.backend.kind === "guard" };
}

function backendMessage(backend: BackendRecord): MessageInitShape<typeof AppBackendSchema> {
  switch (backend.kind) {
    case "echo":
      return { kind: { case: "echo", value: {} } };
    case "guard":
      return { kind: { case: "guard", value: {} } };
    case "http": {
      const headers = backend.headers.map(({ name }) => ({ name, value: redacted }));
      return { kind: { case: "http", value: { ...backend.template, url: backend.url, headers } } };
    }
    case "grpc":
      return { kind: { case: "grpc", value: { target: backend.target, tls: backend.tls } } };
  }
}
