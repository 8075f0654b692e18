import { setImmediate as turn } from "node:timers/promises";
import { create, fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, test } from "vitest";
import { AppSchema } from "#gen/keyrun/v1/app_pb.ts";
import {
  CreateAppRequestSchema,
  DeleteAppRequestSchema,
  GetAppRequestSchema,
  ListAppsRequestSchema,
  ListRunnableAppsRequestSchema,
  ListRunnableAppsResponseSchema,
  UpdateAppRequestSchema,
} from "#gen/keyrun/v1/app_service_pb.ts";
import { createAppService } from "#src/apps/app-service.ts";
import type { AppRecord } from "#src/apps/app-store.ts";
import { bounds } from "#src/bounds.ts";
import { createSecurityState } from "#src/fleet/security-state.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { serviceCall } from "../harness/service-call.ts";
import { teamRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();
const stores = closedAtEnd(await openSqliteStores({ dataDir: folders.create() }));
for (const teamId of ["demo", "acme"]) await stores.teams.insert(teamRecordOf({ id: teamId }));

const teams = { peek: () => undefined, load: (teamId: string) => stores.teams.find(teamId) };
const changes: {
  appId: string;
  version: number;
  app: AppRecord | undefined;
  stored: AppRecord | undefined;
}[] = [];
/** Runs between an update's read of the app and its change, in the place of another caller. */
let between: ((seen: AppRecord | undefined) => Promise<unknown>) | undefined;
/** Whether the store's reply to a deletion is lost. */
let losesReply = false;
/** Whether an instance of the fleet knows no long runs. */
/** The runs in the background that were ended. */
const cancelled: unknown[] = [];
const service = createAppService({
  async cancelRuns(runs) {
    cancelled.push(runs);
  },
  store: {
    ...stores.apps,
    async delete(appId) {
      const version = await stores.apps.delete(appId);
      if (losesReply) throw new Error("the reply is lost");
      return version;
    },
    async find(appId) {
      const seen = await stores.apps.find(appId);
      await between?.(seen);
      return seen;
    },
  },
  teams,
  clock: createManualClock(),
  changeSecurityState: createSecurityState<{ app: AppRecord }>({
    floors: {
      app: {
        async raise(appId, version, app) {
          changes.push({ appId, version, app, stored: await stores.apps.find(appId) });
        },
      },
    },
  }),
});
const call = serviceCall();

// Every test starts with no apps, and has an app of its own to change.
let ids = 0;
let id = "";
beforeEach(async () => {
  for (const app of await stores.apps.list({ limit: 1_000 })) await stores.apps.delete(app.id);
  changes.length = 0;
  between = undefined;
  ids += 1;
  id = `app-${ids}`;
});

const http = (headers: JsonObject[] = [], url = "http://127.0.0.1:9000/run") => ({
  id,
  backend: { http: { url, headers } },
});
const createApp = async (app: JsonObject) =>
  json((await service.createApp(fromJson(CreateAppRequestSchema, { app }), call)).app);
const updateApp = async (app: JsonObject, updateMask: string) =>
  json((await service.updateApp(fromJson(UpdateAppRequestSchema, { app, updateMask }), call)).app);
const getApp = async (appId: string) =>
  json((await service.getApp(create(GetAppRequestSchema, { appId }), call)).app);
const json = (app: Parameters<typeof create<typeof AppSchema>>[1]) =>
  toJson(AppSchema, create(AppSchema, app));

describe("creating", () => {
  test("fills in name, timeout and time, and returns the app as it is stored", async () => {
    const app = await createApp({ id, backend: { echo: {} } });
    expect(app).toEqual({
      id,
      displayName: id,
      backend: { echo: {} },
      timeout: "30s",
      streamTimeout: "600s",
      backgroundTimeout: "600s",
      createTime: "2023-11-14T22:13:20Z",
    });
    expect(await getApp(id)).toEqual(app);
  });

  test("keeps all that was given, and names each team once", async () => {
    const given = {
      id,
      displayName: "Shout",
      backend: { grpc: { target: "[::1]:9001", tls: true } },
      timeout: "1.500s",
      streamTimeout: "3600s",
      backgroundTimeout: "1800s",
      teamIds: ["demo", "acme", "demo"],
    };
    expect(await createApp(given)).toMatchObject({ ...given, teamIds: ["demo", "acme"] });
  });

  test("a taken id is APP_EXISTS, and nothing is changed or announced", async () => {
    const app = await createApp({ id, backend: { echo: {} } });
    changes.length = 0;
    await expect(createApp(http())).rejects.toMatchObject({ reason: "APP_EXISTS", param: "app.id" });
    expect(await getApp(id)).toEqual(app);
    expect(changes).toEqual([]);
  });
});

describe("an app for a team that does not exist", () => {
  const refused = {
    reason: "TEAM_NOT_FOUND",
    param: "app.team_ids",
    message: "There is no team `nosuch`.",
    metadata: { team_id: "nosuch" },
  };
  const teamIds = ["demo", "nosuch"];

  test("is not created, because nobody could run it", async () => {
    await expect(createApp({ id, backend: { echo: {} }, teamIds })).rejects.toMatchObject(refused);
    await expect(getApp(id)).rejects.toMatchObject({ reason: "APP_NOT_FOUND" });
    expect(changes).toEqual([]);
  });

  test("can't come from an update, and an update of other fields does not check the teams", async () => {
    await createApp({ id, backend: { echo: {} }, teamIds: ["demo"] });
    changes.length = 0;
    await expect(updateApp({ id, teamIds }, "teamIds")).rejects.toMatchObject(refused);
    expect(await getApp(id)).toMatchObject({ teamIds: ["demo"] });
    expect(changes).toEqual([]);
    expect(await updateApp({ id, teamIds, displayName: "New" }, "displayName")).toMatchObject({
      displayName: "New",
      teamIds: ["demo"],
    });
  });
});

describe("header values", () => {
  const secret = "Bearer backend-secret";
  const headers = [{ name: "Authorization", value: secret }];
  const sentBack = [{ name: "authorization", value: "[redacted]" }];

  test("are stored, and appear in no answer of any method", async () => {
    const answers = [
      await createApp(http(headers)),
      await getApp(id),
      await updateApp({ ...http(headers), displayName: "Other" }, "displayName,backend"),
      (await service.listApps(create(ListAppsRequestSchema), call)).apps,
      (await service.listRunnableApps(create(ListRunnableAppsRequestSchema, { teamId: "demo" }), call)).apps,
    ];
    const text = JSON.stringify(answers, (_, value) => (typeof value === "bigint" ? `${value}` : value));
    expect(text).not.toContain("backend-secret");
    expect(text).toContain('"value":"[redacted]"');
    expect(await storedHeaders()).toEqual([{ name: "authorization", value: secret }]);
  });

  test("are kept where the redacted value that was read is sent back", async () => {
    const app = await createApp(http(headers));
    expect(await updateApp(app as JsonObject, "backend")).toEqual(app);
    expect(await storedHeaders()).toEqual([{ name: "authorization", value: secret }]);
  });

  test("are kept for another path of the same server, beside new ones", async () => {
    await createApp(http(headers));
    const more = { name: "x-tier", value: "gold" };
    await updateApp(http([more, ...sentBack], "http://127.0.0.1:9000/other"), "backend");
    expect(await storedHeaders()).toEqual([more, { name: "authorization", value: secret }]);
  });

  test("are kept as they are at the time of the change, even where another change came in between", async () => {
    const app = await createApp(http(headers));
    const newer = {
      kind: "http",
      url: "http://127.0.0.1:9000/run",
      headers: [{ name: "authorization", value: "newer" }],
    };
    between = async () => {
      between = undefined;
      await stores.apps.update(id, { backend: newer as AppRecord["backend"] });
    };
    await updateApp(app as JsonObject, "backend");
    expect(await storedHeaders()).toEqual([{ name: "authorization", value: "newer" }]);
  });

  test("are never guessed: where other changes keep coming in between, the update is refused and changes nothing", async () => {
    const app = await createApp(http(headers));
    let others = 0;
    between = () => stores.apps.update(id, { displayName: `Other ${++others}` });
    await expect(updateApp(app as JsonObject, "backend,displayName")).rejects.toMatchObject({
      reason: "UNAVAILABLE",
    });
    between = undefined;
    expect((await stores.apps.find(id))?.displayName).toBe(`Other ${others}`);
    expect(others).toBe(bounds.appUpdateTriesMax);
  });

  test("are dropped with their header", async () => {
    await createApp(http(headers));
    await updateApp(http([]), "backend");
    expect(await storedHeaders()).toEqual([]);
  });

  test.each([
    ["another host", "http://other.example:9000/run", "authorization"],
    ["another port", "http://127.0.0.1:9001/run", "authorization"],
    ["another scheme", "https://127.0.0.1:9000/run", "authorization"],
    ["another name", "http://127.0.0.1:9000/run", "x-api-key"],
  ])("are not kept for %s: the value must be sent again", async (_, url, name) => {
    await createApp(http(headers));
    await expect(updateApp(http([{ name, value: "[redacted]" }], url), "backend")).rejects.toMatchObject({
      reason: "INVALID_ARGUMENT",
      param: "app.backend.http.headers[0].value",
    });
    expect(await storedHeaders()).toEqual([{ name: "authorization", value: secret }]);
  });

  test("must be given in full for a new app", async () => {
    await expect(createApp(http(sentBack))).rejects.toMatchObject({
      param: "app.backend.http.headers[0].value",
    });
  });

  async function storedHeaders() {
    const app = await stores.apps.find(id);
    return app?.backend.kind === "http" ? app.backend.headers : undefined;
  }
});

describe("updating", () => {
  test("changes the named fields and no others", async () => {
    const before = {
      ...http(),
      displayName: "Before",
      timeout: "1s",
      streamTimeout: "3s",
      backgroundTimeout: "5s",
      teamIds: ["demo"],
    };
    const after = {
      id,
      displayName: "After",
      timeout: "2s",
      streamTimeout: "4s",
      backgroundTimeout: "6s",
      teamIds: ["acme"],
      backend: { echo: {} },
    };
    const times = ["timeout", "streamTimeout", "backgroundTimeout"] as const;
    const fields = ["displayName", ...times, "teamIds", "backend"] as const;
    await createApp(before);
    let expected: JsonObject = before;
    for (const field of fields) {
      expected = { ...expected, [field]: after[field] };
      const { createTime: _, ...answered } = (await updateApp(after, field)) as JsonObject;
      expect(answered).toEqual(withoutEmpty(expected));
    }
  });

  test("a named field that is absent takes its default", async () => {
    const times = { timeout: "1s", streamTimeout: "2s", backgroundTimeout: "3s" };
    await createApp({ id, displayName: "Name", ...times, teamIds: ["demo"], backend: { echo: {} } });
    const mask = "displayName,timeout,streamTimeout,backgroundTimeout,teamIds";
    expect(await updateApp({ id }, mask)).toMatchObject({
      displayName: id,
      timeout: "30s",
      streamTimeout: "600s",
      backgroundTimeout: "600s",
    });
    expect(await getApp(id)).not.toHaveProperty("teamIds");
  });

  test.each([
    ["names nothing", ""],
    ["names a field that can't change", "displayName,createTime"],
    ["is a star", "*"],
  ])("is refused where the mask %s", async (_, paths) => {
    await createApp({ id, backend: { echo: {} } });
    const mask = {
      paths: paths === "" ? [] : paths.split(",").map((path) => path.replace("T", "_t").replace("N", "_n")),
    };
    const request = create(UpdateAppRequestSchema, { app: { id, displayName: "New" }, updateMask: mask });
    await expect(service.updateApp(request, call)).rejects.toMatchObject({
      reason: "INVALID_ARGUMENT",
      param: "update_mask",
    });
    expect(await getApp(id)).toMatchObject({ displayName: id });
  });

  function withoutEmpty(app: JsonObject): JsonObject {
    const headers = { http: { url: "http://127.0.0.1:9000/run" } };
    return JSON.stringify(app.backend) === '{"echo":{}}' ? app : { ...app, backend: headers };
  }
});

describe("a change is announced once it is durable and before it is answered", () => {
  test("with a version that grows, also when the app is deleted and created anew", async () => {
    await createApp({ id, backend: { echo: {} } });
    await updateApp({ id, displayName: "New" }, "displayName");
    await service.deleteApp(create(DeleteAppRequestSchema, { appId: id }), call);
    await createApp(http());
    expect(changes.map((change) => change.appId)).toEqual([id, id, id, id]);
    expect(changes.map((change) => change.app?.displayName)).toEqual([id, "New", undefined, id]);
    for (const { app, stored } of changes) expect(app).toEqual(stored);
    const versions = changes.map((change) => change.version);
    expect(versions).toEqual([...new Set(versions)].sort((one, other) => one - other));
  });

  test("an answer waits until the announcement is finished", async () => {
    const announced = Promise.withResolvers<void>();
    const slow = createAppService({
      store: stores.apps,
      teams,
      clock: createManualClock(),
      cancelRuns: async () => {},
      changeSecurityState: createSecurityState<{ app: AppRecord }>({
        floors: { app: { raise: () => announced.promise } },
      }),
    });
    let answered = false;
    const create = async () => {
      await slow.createApp(fromJson(CreateAppRequestSchema, { app: { id, backend: { echo: {} } } }), call);
      answered = true;
    };
    const creating = create();
    expect(await getStored()).toBeDefined();
    expect(answered).toBe(false);
    announced.resolve();
    await creating;
    expect(answered).toBe(true);
  });

  async function getStored() {
    for (;;) {
      const app = await stores.apps.find(id);
      if (app !== undefined) return app;
      await turn();
    }
  }
});

test("an app that never existed or was deleted is APP_NOT_FOUND in every method that names one", async () => {
  await createApp({ id, backend: { echo: {} } });
  await service.deleteApp(create(DeleteAppRequestSchema, { appId: id }), call);
  changes.length = 0;
  const gone = { reason: "APP_NOT_FOUND", metadata: { app_id: id } };
  await expect(getApp(id)).rejects.toMatchObject(gone);
  await expect(updateApp({ id, displayName: "New" }, "displayName")).rejects.toMatchObject(gone);
  expect(changes).toEqual([]);
  await expect(service.deleteApp(create(DeleteAppRequestSchema, { appId: id }), call)).rejects.toMatchObject(
    gone,
  );
  // The floor of the deletion is raised again; nothing else has changed.
  expect(changes).toMatchObject([{ appId: id, version: 2, app: undefined }]);
});

describe("lists", () => {
  test("page through all apps by id, each once", async () => {
    for (const name of ["c", "a", "b"]) await createApp({ id: name, backend: { echo: {} } });
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await service.listApps(create(ListAppsRequestSchema, { pageSize: 2, pageToken }), call);
      seen.push(...(page.apps ?? []).map((app) => app.id ?? ""));
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    expect(seen).toEqual(["a", "b", "c"]);
  });

  test("a team sees the apps that name it or no team, with nothing of their backends", async () => {
    await createApp({ ...http(), id: "for-all", displayName: "For all" });
    await createApp({ id: "for-demo", backend: { echo: {} }, teamIds: ["demo", "acme"] });
    await createApp({ id: "guarded", backend: { guard: {} } });
    await createApp({ id: "for-acme", backend: { echo: {} }, teamIds: ["acme"] });
    const list = await service.listRunnableApps(
      create(ListRunnableAppsRequestSchema, { teamId: "demo" }),
      call,
    );
    expect(toJson(ListRunnableAppsResponseSchema, create(ListRunnableAppsResponseSchema, list))).toEqual({
      apps: [
        { id: "for-all", displayName: "For all" },
        { id: "for-demo", displayName: "for-demo" },
        { id: "guarded", displayName: "guarded", guard: true },
      ],
    });
  });

  test("of a team that does not exist are a refusal, not an empty list", async () => {
    const nobodys = create(ListRunnableAppsRequestSchema, { teamId: "nosuch" });
    await expect(service.listRunnableApps(nobodys, call)).rejects.toMatchObject({
      reason: "TEAM_NOT_FOUND",
      param: "team_id",
    });
  });

  test("one team's page token is refused for another team, and by the list of all", async () => {
    for (const name of ["a", "b"]) await createApp({ id: name, backend: { echo: {} } });
    const first = { teamId: "demo", pageSize: 1 };
    const { nextPageToken: pageToken = "" } = await service.listRunnableApps(
      create(ListRunnableAppsRequestSchema, first),
      call,
    );
    const refused = { reason: "INVALID_ARGUMENT", param: "page_token" };
    const other = create(ListRunnableAppsRequestSchema, { ...first, teamId: "acme", pageToken });
    await expect(service.listRunnableApps(other, call)).rejects.toMatchObject(refused);
    await expect(service.listApps(create(ListAppsRequestSchema, { pageToken }), call)).rejects.toMatchObject(
      refused,
    );
  });
});

test("a deletion whose reply was lost ends cached copies when it is repeated", async () => {
  await service.createApp(
    create(CreateAppRequestSchema, { app: { id: "lost", backend: { kind: { case: "echo", value: {} } } } }),
    call,
  );
  const deletion = create(DeleteAppRequestSchema, { appId: "lost" });
  losesReply = true;
  await expect(service.deleteApp(deletion, call)).rejects.toThrow("the reply is lost");
  losesReply = false;
  changes.length = 0;
  await expect(service.deleteApp(deletion, call)).rejects.toMatchObject({ reason: "APP_NOT_FOUND" });
  expect(changes).toMatchObject([{ appId: "lost", version: 2, app: undefined }]);
});
