import { create } from "@bufbuild/protobuf";
import { type Duration, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Run as RunMessage, RunSchema, RunState } from "#gen/keyrun/v1/run_pb.ts";
import type { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../../apps/app-store.ts";
import { type CheckKey, mayRunApp } from "../../auth/key-evidence.ts";
import type { Call, KeyPrincipal, ServiceMethods } from "../../auth/principal.ts";
import { cutPage, type Page, readPage, readPlace, writePlace } from "../../base/page.ts";
import type { RecordSource } from "../../cache/record-source.ts";
import { isReason } from "../../refusal/reasons.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { type IdempotentRuns, idempotencyHeader, replayedHeader } from "../idempotency/idempotent-runs.ts";
import { readKeptText } from "../idempotency/run-records.ts";
import { runBounds } from "../run-bounds.ts";
import { type FindRunnableApp, keyOf } from "../runner.ts";
import type { CheckRight } from "../watch-rights.ts";
import type { BackgroundRuns } from "./background-runs.ts";
import type { BackgroundRecord, RunFault } from "./background-store.ts";

type Methods = Pick<ServiceMethods<typeof RunService>, "getRun" | "listRuns" | "cancelRun">;

/** What an admitted request may do with runs in the background. */
export interface BackgroundService extends Methods {
  /** Whether the settings have runs in the background. */
  readonly isOffered: boolean;
  /**
   * Starts a run of the app, or finds the one for which the request's Idempotency-Key stands, and
   * waits for its end for so long. Undefined if that one is not in the background. Throws
   * BACKGROUND_RUNS_OFF where there are none, and as `BackgroundRuns.start`.
   */
  start(request: StartRequest, call: Call): Promise<RunMessage | undefined>;
  /**
   * Waits for the run of a repeated Idempotency-Key. Throws IDEMPOTENCY_KEY_IN_USE while it runs.
   */
  answerOf(runId: string, call: Call): Promise<{ readonly runId: string; readonly text: string }>;
}

export interface StartRequest {
  readonly app: AppRecord;
  readonly text: string;
  readonly waitMs: number;
}

export function createBackgroundService(parts: {
  readonly runs: BackgroundRuns;
  readonly idempotent: Pick<IdempotentRuns, "claimInBackground">;
  readonly apps: RecordSource<AppRecord>;
  readonly checkKey: CheckKey;
  readonly findRunnableApp: FindRunnableApp;
  readonly newRunId: () => string;
  readonly isOffered: boolean;
}): BackgroundService {
  const { runs } = parts;

  /** Throws RUN_NOT_FOUND if the key may not run this app. A deleted app is nobody else's. */
  async function checkApp({ teamId, restrictions }: KeyPrincipal, appId: string): Promise<void> {
    if (!mayRunApp(restrictions, appId)) throw notFound();
    const app = await parts.apps.load(appId);
    if (app && app.teamIds.length > 0 && !app.teamIds.includes(teamId)) throw notFound();
  }

  const rightTo =
    (key: KeyPrincipal, appId: string): CheckRight =>
    async () => {
      await parts.checkKey(key.keyId);
      await checkApp(key, appId);
    };

  async function find(runId: string, key: KeyPrincipal): Promise<BackgroundRecord> {
    if (!runIdForm.test(runId)) throw notFound();
    const record = await runs.find(runId);
    if (record?.teamId !== key.teamId) throw notFound();
    await checkApp(key, record.appId);
    return record;
  }

  async function waited(record: BackgroundRecord, msMax: number, call: Call): Promise<BackgroundRecord> {
    const checkRight = rightTo(keyOf(call), record.appId);
    const now = await runs.wait(record, { msMax, call, checkRight });
    if (!now) throw notFound();
    return now;
  }

  async function textOf({ id, textBytes }: BackgroundRecord, call: Call): Promise<string | null> {
    return textBytes === null ? null : await readKeptText(call.http, textBytes, () => runs.textOf(id));
  }

  async function messageWithText(record: BackgroundRecord, call: Call): Promise<RunMessage> {
    const text = record.state === "succeeded" ? await textOf(record, call) : null;
    const message = messageOf(record);
    if (record.state !== "succeeded") return message;
    if (text === null) message.textDropped = true;
    else message.text = text;
    return message;
  }

  /** The run for which the key stands. Its owner may not have written it yet. */
  async function ofKey(runId: string, call: Call): Promise<BackgroundRecord> {
    const record = await runs.find(runId);
    if (!record) throw fail("IDEMPOTENCY_KEY_IN_USE");
    call.responseHeaders.set(replayedHeader, "true");
    return record;
  }

  async function startOrFind(asked: StartRequest, call: Call): Promise<BackgroundRecord | undefined> {
    const { app } = asked;
    const principal = keyOf(call);
    const { teamId, keyId } = principal;
    const runId = parts.newRunId();
    const checkRight = async () => {
      await parts.checkKey(keyId);
      await parts.findRunnableApp(principal, app.id);
    };
    const request = { runId, teamId, keyId, app, text: asked.text, checkRight };
    const key = call.http.header(idempotencyHeader);
    if (key === undefined) return await runs.start(request, call);
    const claim = await parts.idempotent.claimInBackground({ ...request, key }, runId, call);
    if (claim === undefined) return undefined;
    return "free" in claim
      ? await runs.start({ ...request, claim }, call)
      : await ofKey(claim.backgroundRunId, call);
  }

  return {
    isOffered: parts.isOffered,
    async start(asked, call) {
      if (!parts.isOffered) throw fail("BACKGROUND_RUNS_OFF");
      const record = await startOrFind(asked, call);
      return record && (await messageWithText(await waited(record, asked.waitMs, call), call));
    },
    async answerOf(runId, call) {
      const found = await ofKey(runId, call);
      const record = await waited(found, runBounds.runWaitMsMax, call);
      if (record.state === "running") throw fail("IDEMPOTENCY_KEY_IN_USE");
      if (record.error) throw refusalOf(record.error);
      const text = await textOf(record, call);
      if (text === null) throw fail("IDEMPOTENCY_ANSWER_GONE");
      return { runId: record.id, text };
    },
    async getRun({ runId, wait }, call) {
      const record = await find(runId, keyOf(call));
      return { run: await messageWithText(await waited(record, readWait(wait), call), call) };
    },
    async listRuns(request, call) {
      const key = keyOf(call);
      const scope = `runs of ${key.teamId}`;
      const page = readPage(request, scope);
      const { items, nextPageToken } = cutPage(await list(key, page), page, scope, (last) =>
        writePlace({ timeMs: last.createTimeMs, id: last.id }),
      );
      const shown: RunMessage[] = [];
      for (const record of items) if (await isShown(key, record)) shown.push(messageOf(record));
      return { runs: shown, nextPageToken };
    },
    async cancelRun({ runId }, call) {
      const found = await find(runId, keyOf(call));
      const record = found.state === "running" ? await runs.cancel(found) : found;
      if (!record) throw notFound();
      return { run: await messageWithText(record, call) };
    },
  };

  function list({ teamId, restrictions }: KeyPrincipal, { after, limit }: Page): Promise<BackgroundRecord[]> {
    const appIds = restrictions?.appIds ?? [];
    return runs.list(teamId, {
      limit: limit + 1,
      after: after === undefined ? undefined : readPlace(after),
      ...(appIds.length > 0 && { appIds }),
    });
  }

  async function isShown(key: KeyPrincipal, { appId }: BackgroundRecord): Promise<boolean> {
    try {
      await checkApp(key, appId);
      return true;
    } catch (thrown) {
      if (isNotFound(thrown)) return false;
      throw thrown;
    }
  }
}

const runIdForm = /^run_[0-9a-hjkmnp-tv-z]{24}$/;

/** A wait in milliseconds. Refuses a negative one. */
export function readWait(wait: Duration | undefined): number {
  if (wait === undefined) return 0;
  const ms = Number(wait.seconds) * 1_000 + wait.nanos / 1_000_000;
  if (ms >= 0) return ms;
  throw fail("INVALID_ARGUMENT", { param: "wait", problem: 'wait must not be negative: as "30s".' });
}

/** The refusal with which a caller that waited for the run would have been refused. */
export function refusalOf({ code, message }: RunFault): Refusal {
  const reason = code.toUpperCase();
  // A newer instance may know more reasons.
  return fail(isReason(reason) ? reason : "APP_FAILED", { problem: message, mayHaveRun: true });
}

function notFound(): Refusal {
  return fail("RUN_NOT_FOUND", { param: "run_id" });
}

function isNotFound(thrown: unknown): boolean {
  return thrown instanceof Error && "reason" in thrown && thrown.reason === "RUN_NOT_FOUND";
}

const states = {
  running: RunState.RUNNING,
  succeeded: RunState.SUCCEEDED,
  failed: RunState.FAILED,
  cancelled: RunState.CANCELLED,
} as const;

/** Without its text. */
function messageOf(record: BackgroundRecord): RunMessage {
  const { id, appId, keyId, state, error, createTimeMs, endTimeMs, expireTimeMs } = record;
  return create(RunSchema, {
    runId: id,
    appId,
    keyId,
    state: states[state],
    createTime: timestampFromMs(createTimeMs),
    ...(error && { error }),
    ...(endTimeMs !== null && { endTime: timestampFromMs(endTimeMs) }),
    ...(expireTimeMs !== null && { expireTime: timestampFromMs(expireTimeMs) }),
  });
}
