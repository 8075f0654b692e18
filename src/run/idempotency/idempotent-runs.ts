/**
 * How a run with an Idempotency-Key works. The key, with its team and app, names one record in the
 * store. An instance claims the record before it starts the app, so no second request can start it,
 * on any instance. The run is then detached: it goes on when its caller leaves, and its outcome is
 * written into the record before the caller gets it. A repeat on this instance waits for the run
 * (`RunUnderWay`); any other one gets what the record has. If nothing can have reached the app, the
 * record is removed and the key is free again. The first end that is written stands: where the
 * owner of a run wrote none within its time, the next repeat writes that the run has failed. A
 * write that the store can't take waits in a retry queue.
 */

import { createHash } from "node:crypto";
import type { AppRecord } from "../../apps/app-store.ts";
import type { Call } from "../../auth/principal.ts";
import type { Clock } from "../../base/clock.ts";
import { withoutSecret } from "../../base/fields.ts";
import { bounds } from "../../bounds.ts";
import { readTraceContext } from "../../http/trace-context.ts";
import { type ByteBudget, overloaded, type TeamReservation } from "../../limit/byte-budget.ts";
import { fail, type Refusal, unavailable } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import type { Run, Runner } from "../runner.ts";
import type { RunClaim, RunRecord, RunRecordStore } from "./run-record-store.ts";
import { createRunRecords, readKeptText } from "./run-records.ts";
import { outcomeOf, type RunOutcome, RunUnderWay, replayedRefusal } from "./run-under-way.ts";

/** A run with an Idempotency-Key. */
export interface IdempotentRequest {
  readonly teamId: string;
  readonly keyId: string;
  readonly app: AppRecord;
  readonly text: string;
  /** The value of the header, as it was sent. */
  readonly key: string;
}

export interface IdempotentAnswer {
  readonly runId: string;
  readonly text: string;
  /** An earlier request with the key had this answer. */
  readonly isReplayed: boolean;
}

/** The key stands for this run in the background, whose record says what came of it. */
export interface KeyOfBackgroundRun {
  readonly backgroundRunId: string;
}

/** A key that was claimed for a run in the background. */
export interface BackgroundClaim {
  /** Frees the key: nothing of the run has reached the app. Never rejects. */
  readonly free: () => Promise<void>;
  /** The monotonic time before it was claimed. The run must begin soon after that, or never. */
  readonly begunMs: number;
}

/**
 * Runs apps at most once for each key, whatever the network, the callers or a crash do. The key
 * stands for what came of the run, for `keptHours`. Its scope is the team and the id of the app:
 * also an app that was deleted and made anew is not started twice for one key.
 */
export interface IdempotentRuns {
  /**
   * Runs the app, or returns what came of the key's run. The run goes on when its caller leaves.
   * Throws INVALID_ARGUMENT for a key of the wrong form, IDEMPOTENCY_KEY_REUSED if the key was sent
   * with another text, IDEMPOTENCY_KEY_IN_USE while the run has not ended, IDEMPOTENCY_ANSWER_GONE
   * if its answer is no longer kept, and UNAVAILABLE if the record of the run can't be written: the
   * app is then not started.
   */
  run(request: IdempotentRequest, call: Call): Promise<IdempotentAnswer>;
  /**
   * Claims the key for a run in the background with this id. Otherwise returns the run for which it
   * stands; undefined if that one is not in the background: `run` then has the outcome.
   * Throws as `run` does.
   */
  claimInBackground(
    request: IdempotentRequest,
    runId: string,
    call: Call,
  ): Promise<BackgroundClaim | KeyOfBackgroundRun | undefined>;
  /** Resolves once no run is under way, and what came of each is written. */
  idle(): Promise<void>;
  /** Deletes what is kept of the team's runs. Calls `before` before each write. */
  deleteOfTeam(teamId: string, before: () => void): Promise<void>;
  /** Starts to remove expired records. */
  start(): void;
  /** Writes what is left. Call it once no run is under way. */
  close(): Promise<void>;
}

export function createIdempotentRuns(parts: {
  readonly clock: Clock;
  readonly store: RunRecordStore;
  /** Other instances use the store too. Their wall clocks may differ from this one's. */
  readonly isShared?: boolean;
  readonly run: Runner;
  readonly bytes: ByteBudget;
  readonly newRunId: () => string;
  /** The runs in the background, which keys may stand for. */
  readonly background: {
    /** Whether there is a record of the run. */
    isKept(runId: string): Promise<boolean>;
    /** Waits for the run, and returns or throws what came of it. */
    answerOf(runId: string, call: Call): Promise<{ readonly runId: string; readonly text: string }>;
  };
  /** How long what came of a run is kept. With 0, a key is refused. */
  readonly keptHours: number;
  /** How many records the team may have. */
  readonly recordsMaxOf: (teamId: string) => Promise<number>;
  /** Called with the cause when an outcome or a sweep could not be written. It is tried again. */
  readonly onWriteFailed: (cause: unknown) => void;
}): IdempotentRuns {
  const { clock, keptHours, bytes } = parts;
  const skewMs = parts.isShared ? runBounds.clockSkewMsMax : 0;
  // The owner of a run may be another instance, and still try to write what came of it.
  const ownerMs = parts.isShared ? runBounds.outcomeRetryMsMax + skewMs : 0;
  // By the clock of every instance, the key is kept for as long as was promised.
  const keptMs = keptHours * hourMs + skewMs;
  const records = createRunRecords({ ...parts, keptMs });
  const underWay = new Map<string, RunUnderWay>();
  let running = 0;
  let whenIdle: (() => void)[] = [];

  async function run(request: IdempotentRequest, call: Call): Promise<IdempotentAnswer> {
    const names = namesOf(request);
    const next = await claimOrFind(call, () => claimOf(request, names));
    if (next.kind === "claimed") return await begin(request, next, call);
    if (next.kind === "here") return await join(next.here, names.fingerprint, call);
    const background = backgroundRunOf(next, names.fingerprint);
    if (!background) return await replay(next.found, names.fingerprint, call);
    return { ...(await parts.background.answerOf(background.backgroundRunId, call)), isReplayed: true };
  }

  async function claimInBackground(request: IdempotentRequest, runId: string, call: Call) {
    const names = namesOf(request);
    const next = await claimOrFind(call, () => backgroundClaimOf(request, names, runId));
    if (next.kind !== "claimed") return backgroundRunOf(next, names.fingerprint);
    return { free: () => records.release(next.claim, () => {}), begunMs: next.begunMs };
  }

  function backgroundRunOf(
    next: Exclude<Awaited<ReturnType<typeof claimOrFind>>, Claimed>,
    fingerprint: string,
  ): KeyOfBackgroundRun | undefined {
    if (next.kind === "here" || next.found.state !== "background") return undefined;
    if (next.found.fingerprint !== fingerprint) throw fail("IDEMPOTENCY_KEY_REUSED");
    return { backgroundRunId: next.found.runId };
  }

  async function claimOrFind(call: Call, claimNow: () => RunClaim) {
    if (keptHours === 0) refuseIdempotencyKey(call, "Idempotency-Key is turned off here.");
    for (let tries = 0; tries < bounds.claimTriesMax; tries++) {
      const begunMs = clock.monotonicMs();
      const claim = claimNow();
      const here = hereOf(claim.id);
      if (here) return { kind: "here", here } as const;
      const found = await records.claim(claim);
      if (!found) return { kind: "claimed", claim, begunMs } as const;
      if (found.expireTimeMs <= clock.unixMs() || (await isGone(found))) await records.removeExpired(found);
      else if (hereOf(claim.id)?.claim.runId === found.runId) continue;
      // What the owner does meanwhile stands, if it is the first: the next claim meets it.
      else if (isLost(found)) await records.fail(found);
      else return { kind: "found", found } as const;
    }
    throw unavailable();
  }

  /** The run of this process, as long as no other instance may have written another outcome. */
  function hereOf(id: string): RunUnderWay | undefined {
    const here = underWay.get(id);
    return here && clock.monotonicMs() < here.untilMs ? here : undefined;
  }

  /** Whether the run's owner has had all the time in which it may write what came of it. */
  function isLost({ state, runUntilMs }: RunRecord): boolean {
    return state === "running" && clock.unixMs() >= runUntilMs + ownerMs;
  }

  /** Whether the run in the background was never started, or is kept no longer. */
  async function isGone({ state, runId, createTimeMs }: RunRecord): Promise<boolean> {
    if (state !== "background" || clock.unixMs() < createTimeMs + runBounds.runSlackMs + skewMs) return false;
    return !(await parts.background.isKept(runId));
  }

  function claimOf({ teamId, app }: IdempotentRequest, { id, fingerprint }: RecordNames): RunClaim {
    const createTimeMs = clock.unixMs();
    return {
      id,
      fingerprint,
      teamId,
      runId: parts.newRunId(),
      state: "running",
      createTimeMs,
      runUntilMs: createTimeMs + app.timeoutMs + runBounds.runSlackMs,
      expireTimeMs: createTimeMs + keptMs,
    };
  }

  /** The key stands for the run at least as long as the run is kept. */
  function backgroundClaimOf(request: IdempotentRequest, names: RecordNames, runId: string): RunClaim {
    const claim = claimOf(request, names);
    const runUntilMs = claim.createTimeMs + request.app.backgroundTimeoutMs + runBounds.runSlackMs;
    return { ...claim, runId, state: "background", runUntilMs, expireTimeMs: runUntilMs + ownerMs + keptMs };
  }

  async function begin(
    request: IdempotentRequest,
    { claim, begunMs }: Claimed,
    call: Call,
  ): Promise<IdempotentAnswer> {
    const untilMs = begunMs + (claim.runUntilMs - claim.createTimeMs) + runBounds.outcomeRetryMsMax;
    const traceContext = readTraceContext(call.http);
    const { teamId, runId } = claim;
    const { keyId, app, text } = request;
    const reservation = bytes.open(teamId);
    const run: Run = {
      runId,
      teamId,
      keyId,
      app,
      text,
      reservation,
      requestId: call.http.requestId,
      traceContext,
      // It goes on without its caller.
      signal: new AbortController().signal,
    };
    running += 1;
    const answered = carryOut({ run, reservation }, { claim, begunMs }, untilMs).finally(() => {
      running -= 1;
      if (running > 0) return;
      for (const resolve of whenIdle) resolve();
      whenIdle = [];
    });
    const here = new RunUnderWay({ claim, untilMs }, answered);
    underWay.set(claim.id, here);
    const outcome = await here.outcome(call);
    if (outcome.kind !== "kept" || outcome.state !== "done") throw outcome.refusal;
    return { runId: claim.runId, text: outcome.text, isReplayed: false };
  }

  /** Runs the app for nobody in particular, and keeps what came of it. Never rejects. */
  async function carryOut(
    { run, reservation }: { run: Run; reservation: TeamReservation },
    { claim, begunMs }: Omit<Claimed, "kind">,
    untilMs: number,
  ): Promise<RunOutcome> {
    const outcome = await outcomeOf(() => {
      // The record would say too early that the app can't be at work any more.
      if (clock.monotonicMs() - begunMs > runBounds.claimMsMax) throw unavailable();
      if (!reservation.reserve(Buffer.byteLength(run.text))) throw overloaded();
      return parts.run(run);
    });
    const ended = () => {
      if (underWay.get(claim.id)?.claim === claim) underWay.delete(claim.id);
      reservation.release();
    };
    if (outcome.kind !== "kept") {
      reservation.release();
      if (outcome.kind === "not_started") await records.release(claim, ended);
      else ended();
      return outcome;
    }
    await records.end(claim, outcome, { untilMs, done: ended });
    // Another instance may have written first that the run has failed. A repeat gets that.
    if (clock.monotonicMs() >= untilMs) return { kind: "unknown", refusal: fail("IDEMPOTENCY_KEY_IN_USE") };
    return outcome;
  }

  /** Waits for a run that is under way in this process. */
  async function join(here: RunUnderWay, fingerprint: string, call: Call): Promise<IdempotentAnswer> {
    if (here.claim.fingerprint !== fingerprint) throw fail("IDEMPOTENCY_KEY_REUSED");
    const outcome = await here.outcomeForRepeat(call);
    if (outcome.kind !== "kept") throw outcome.refusal;
    if (outcome.state !== "done") throw replayedRefusal(outcome.state, outcome.refusal.message);
    return { runId: here.claim.runId, text: outcome.text, isReplayed: true };
  }

  /** Tells what the store has of a run that is not under way in this process. */
  async function replay(found: RunRecord, fingerprint: string, call: Call): Promise<IdempotentAnswer> {
    const { runId, state } = found;
    if (found.fingerprint !== fingerprint) throw fail("IDEMPOTENCY_KEY_REUSED");
    // It runs on another instance, or its process has ended. The app may still be at work.
    if (state === "running" || state === "background") throw fail("IDEMPOTENCY_KEY_IN_USE");
    if (state !== "done" && found.textBytes === 0) throw replayedRefusal(state);
    const text = await readKeptText(call.http, found.textBytes, () => records.textOf(found));
    if (state === "done" && text !== null) return { runId, text, isReplayed: true };
    if (state === "done") throw fail("IDEMPOTENCY_ANSWER_GONE");
    throw text === null ? replayedRefusal(state) : replayedRefusal("app_refused", text);
  }

  async function idle(): Promise<void> {
    if (running > 0) await new Promise<void>((resolve) => whenIdle.push(resolve));
  }

  return {
    run,
    claimInBackground,
    idle,
    deleteOfTeam: records.deleteOfTeam,
    start: records.start,
    async close() {
      await idle();
      await records.close();
    },
  };
}

/** A claim of this process, and the monotonic time at which it was begun. */
interface Claimed {
  readonly kind: "claimed";
  readonly claim: RunClaim;
  readonly begunMs: number;
}

type RecordNames = Pick<RunClaim, "id" | "fingerprint">;

const hourMs = 3_600_000;

/** The key is not stored: it may name an order, or a person. */
function namesOf({ teamId, app, text, key }: IdempotentRequest): RecordNames {
  const scoped = JSON.stringify([teamId, app.id, readIdempotencyKey(key)]);
  return {
    id: createHash("sha256").update(scoped).digest("base64url"),
    fingerprint: createHash("sha256").update(`${app.id}\n`).update(text).digest("base64url"),
  };
}

/** The name of the header, and of the metadata over gRPC and Connect. */
export const idempotencyHeader = "idempotency-key";

/** Set to "true" on an answer that came of an earlier request. */
export const replayedHeader = "idempotency-replayed";

const { idempotencyKeyCharactersMax: charactersMax } = bounds;

/**
 * Returns the key in a header's value, which may be quoted, as RFC 8941 has a string. Refuses a
 * value of another form, and so the two values of a header that was sent twice: they are joined by
 * a comma and a space.
 */
function readIdempotencyKey(value: string): string {
  const key = value.startsWith('"') ? unquoted(value) : value;
  if (key !== undefined && key.length <= charactersMax && visible.test(key)) {
    return withoutSecret(key, "Idempotency-Key");
  }
  throw refusal(`Send Idempotency-Key once, with 1 to ${charactersMax} visible ASCII characters.`);
}

/** Refuses a request that must not have a key: the words say why and what to do. */
export function refuseIdempotencyKey({ http }: Pick<Call, "http">, why: string): void {
  if (http.header(idempotencyHeader) !== undefined) {
    throw refusal(`${why} Send the request without Idempotency-Key.`);
  }
}

function refusal(problem: string): Refusal {
  return fail("INVALID_ARGUMENT", { param: "Idempotency-Key", problem });
}

function unquoted(value: string): string | undefined {
  const inner = quoted.exec(value)?.[1];
  return inner?.replace(/\\(.)/g, "$1");
}

const visible = /^[!-~]+$/;
const quoted = /^"((?:[^"\\]|\\["\\])*)"$/;
