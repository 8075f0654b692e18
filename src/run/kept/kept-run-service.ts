import { create, fromJson } from "@bufbuild/protobuf";
import { type Duration, timestampFromMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Run as RunMessage, RunSchema, RunState } from "#gen/keyrun/v1/run_pb.ts";
import type { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../../apps/app-store.ts";
import { type CheckKey, mayRunApp } from "../../auth/key-evidence.ts";
import type { Call, KeyPrincipal, ServiceMethods } from "../../auth/principal.ts";
import { ownTurn } from "../../base/clock.ts";
import { cutPage, type Page, readPage, readPlace, writePlace } from "../../base/page.ts";
import type { RecordSource } from "../../cache/record-source.ts";
import { type Reservation, unlessAborted } from "../../http/handler.ts";
import { overloaded } from "../../limit/byte-budget.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import { type FindRunnableApp, keyOf, type RunInput, type RunOutput } from "../runner.ts";
import type { CheckRight } from "../watch-rights.ts";
import { claimOf, idempotencyHeader, refuseIdempotencyKey, replayedHeader } from "./idempotency-key.ts";
import type { KeptRuns, StartedRun } from "./kept-runs.ts";
import { type RunWithText, readOutput, refusalOfFault } from "./run-ends.ts";
import type { RunRecord } from "./run-store.ts";

type Methods = Pick<ServiceMethods<typeof RunService>, "getRun" | "listRuns" | "cancelRun">;

/** What an admitted request may do with runs that have a record. */
export interface KeptRunService extends Methods {
  /** Whether the settings have anything kept of runs. */
  readonly isOffered: boolean;
  /**
   * Runs the app once for the request's Idempotency-Key, or waits for the run for which the key
   * stands. The run goes on when its caller leaves. Throws what came of the run, INVALID_ARGUMENT
   * for a key of the wrong form, IDEMPOTENCY_KEY_IN_USE where the run has not ended by the caller's
   * deadline, IDEMPOTENCY_ANSWER_GONE if its answer is no longer kept, and as `KeptRuns.start`.
   */
  runOnce(request: KeptRunRequest, call: Call): Promise<RunOutput & { readonly runId: string }>;
  /**
   * Starts a run in the background, or finds the one for which the request's Idempotency-Key
   * stands, and waits for its end for so long. Throws BACKGROUND_RUNS_OFF where there are none, and
   * as `KeptRuns.start`.
   */
  start(request: KeptRunRequest & { readonly waitMs: number }, call: Call): Promise<RunMessage>;
}

export interface KeptRunRequest extends RunInput {
  readonly app: AppRecord;
}

export function createKeptRunService(parts: {
  readonly runs: KeptRuns;
  readonly apps: RecordSource<AppRecord>;
  readonly checkKey: CheckKey;
  readonly findRunnableApp: FindRunnableApp;
  readonly newRunId: () => string;
  readonly isOffered: boolean;
}): KeptRunService {
  const { runs } = parts;

  /** Throws RUN_NOT_FOUND if the key may not run this app. A deleted app is nobody else's. */
  async function checkApp({ teamId, restrictions }: KeyPrincipal, appId: string): Promise<void> {
    if (!mayRunApp(restrictions, appId)) throw notFound();
    const app = await parts.apps.load(appId);
    if (app && app.teamIds.length > 0 && !app.teamIds.includes(teamId)) throw notFound();
  }

  const rightToRead =
    (key: KeyPrincipal, appId: string): CheckRight =>
    async () => {
      await parts.checkKey(key.keyId);
      await checkApp(key, appId);
    };
  const rightToRun =
    (key: KeyPrincipal, appId: string): CheckRight =>
    async () => {
      await parts.checkKey(key.keyId);
      await parts.findRunnableApp(key, appId);
    };

  async function find(runId: string, key: KeyPrincipal): Promise<RunRecord> {
    if (!runIdForm.test(runId)) throw notFound();
    const record = await runs.find(runId);
    if (record?.teamId !== key.teamId) throw notFound();
    await checkApp(key, record.appId);
    return record;
  }

  /** Undefined if it is no longer kept. */
  async function outputOf({ id, textBytes, text }: RunWithText, call: Call): Promise<RunOutput | undefined> {
    if (textBytes === null) return undefined;
    const kept = await readKeptText(call.http, textBytes, async () => text ?? (await runs.textOf(id)));
    return kept === null ? undefined : readOutput(kept);
  }

  async function messageWithOutput(record: RunWithText, call: Call): Promise<RunMessage> {
    const message = messageOf(record);
    if (record.state !== "succeeded") return message;
    const kept = await outputOf(record, call);
    if (!kept) message.textDropped = true;
    if (kept?.text !== undefined) message.text = kept.text;
    if (kept?.output !== undefined) message.output = fromJson(ValueSchema, kept.output);
    return message;
  }

  async function start(
    { app, text, input }: KeptRunRequest,
    { listed, checkRight }: { readonly listed: boolean; readonly checkRight: CheckRight },
    call: Call,
  ): Promise<StartedRun> {
    const { teamId, keyId } = keyOf(call);
    const key = call.http.header(idempotencyHeader);
    const claim = key === undefined ? undefined : claimOf(key, { teamId, appId: app.id, text, input });
    const runId = parts.newRunId();
    const started = await runs.start(
      { runId, teamId, keyId, app, text, input, listed, claim, checkRight },
      call,
    );
    if (!started.output) call.responseHeaders.set(replayedHeader, "true");
    return started;
  }

  return {
    isOffered: parts.isOffered,
    async runOnce(asked, call) {
      if (!parts.isOffered) refuseIdempotencyKey(call, "Idempotency-Key is turned off here.");
      const checkRight = rightToRun(keyOf(call), asked.app.id);
      const { record, output } = await start(asked, { listed: false, checkRight }, call);
      if (output) return { runId: record.id, ...(await unlessAborted(output, call.signal)) };
      // By then a run that has just begun is over.
      const found = await runs.wait(record, { msMax: asked.app.timeoutMs, call, checkRight });
      if (!found || found.state === "running") throw fail("IDEMPOTENCY_KEY_IN_USE");
      if (found.error) throw refusalOfFault(found.error);
      const kept = await outputOf(found, call);
      if (!kept) throw fail("IDEMPOTENCY_ANSWER_GONE");
      return { runId: found.id, ...kept };
    },
    async start({ waitMs, ...asked }, call) {
      if (!parts.isOffered) throw fail("BACKGROUND_RUNS_OFF");
      const checkRight = rightToRun(keyOf(call), asked.app.id);
      const { record } = await start(asked, { listed: true, checkRight }, call);
      const found = await runs.wait(record, { msMax: waitMs, call, checkRight });
      // What began with this key was not begun after all.
      if (!found) throw fail("IDEMPOTENCY_KEY_IN_USE");
      return await messageWithOutput(found, call);
    },
    async getRun({ runId, wait }, call) {
      const record = await find(runId, keyOf(call));
      const checkRight = rightToRead(keyOf(call), record.appId);
      const found = await runs.wait(record, { msMax: readWait(wait), call, checkRight });
      if (!found) throw notFound();
      return { run: await messageWithOutput(found, call) };
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
      return { run: await messageWithOutput(record, call) };
    },
  };

  function list({ teamId, restrictions }: KeyPrincipal, { after, limit }: Page): Promise<RunRecord[]> {
    const appIds = restrictions?.appIds ?? [];
    return runs.list(teamId, {
      limit: limit + 1,
      after: after === undefined ? undefined : readPlace(after),
      ...(appIds.length > 0 && { appIds }),
    });
  }

  async function isShown(key: KeyPrincipal, { appId }: RunRecord): Promise<boolean> {
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

/** A wait in milliseconds, `runWaitMsMax` at most. Refuses a negative one. */
export function readWait(wait: Duration | undefined): number {
  if (wait === undefined) return 0;
  const ms = Number(wait.seconds) * 1_000 + wait.nanos / 1_000_000;
  if (ms >= 0) return Math.min(ms, runBounds.runWaitMsMax);
  throw fail("INVALID_ARGUMENT", { param: "wait", problem: 'wait must not be negative: as "30s".' });
}

/**
 * Reads a kept text of so many bytes for a request, which reserves for it. A short request can ask
 * for a long text, so many may ask at once: each is read in a turn of its own. Throws OVERLOADED.
 */
export async function readKeptText(
  { reservation }: { readonly reservation: Reservation },
  textBytes: number,
  read: () => Promise<string | null>,
): Promise<string | null> {
  if (!reservation.reserve(textBytes)) throw overloaded();
  if (textBytes >= runBounds.longTextBytes) await ownTurn();
  return await read();
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

/** Without its output. */
function messageOf(record: RunRecord): RunMessage {
  const { id, appId, keyId, state, error, createTimeMs, endTimeMs, expireTimeMs } = record;
  return create(RunSchema, {
    runId: id,
    appId,
    keyId,
    state: states[state],
    createTime: timestampFromMs(createTimeMs),
    ...(error && { error }),
    ...(endTimeMs !== null && {
      endTime: timestampFromMs(endTimeMs),
      expireTime: timestampFromMs(expireTimeMs),
    }),
  });
}
