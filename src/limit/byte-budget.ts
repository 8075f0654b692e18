import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

/**
 * Bounds the bytes that runs hold in this process: bodies that arrive, texts that wait, calls that
 * are being written to apps, and outputs. What is passed on as an answer is counted apart, by
 * `UnreadAnswers`.
 *
 * A team may hold half of the bound, and a quarter of it while another team has asked for bytes
 * within `appSharedMs`. All teams together get three quarters. The last quarter is for teams that
 * hold little, at most a 64th of the bound each, so that they are served beside those that hold
 * much.
 */
export class ByteBudget {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #bytesMax: number;
  readonly #teams = new Map<string, TeamBytes>();
  /** Two are enough: of all teams but one, the team that asked last is always among them. */
  #last: Asked | undefined;
  #lastOfAnother: Asked | undefined;
  #bytes = 0;

  constructor(clock: Pick<Clock, "monotonicMs">, bytesMax: number) {
    this.#clock = clock;
    this.#bytesMax = bytesMax;
  }

  /** The bytes that are held by all teams. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Holds nothing yet. Call its `release` at the end of the work, whatever the end is. */
  open(teamId: string): HeldBytes {
    return new HeldBytes(this, teamId);
  }

  /** Takes all of the bytes or none, and returns whether it took them. */
  take(teamId: string, bytes: number): boolean {
    const team = this.#teamOf(teamId);
    const isShared = this.#isShared(teamId);
    const ofTeam = team.bytes + bytes;
    const all = this.#bytes + bytes;
    const isLittle = ofTeam * 64 <= this.#bytesMax;
    if (all > (isLittle ? this.#bytesMax : 0.75 * this.#bytesMax)) return false;
    if (ofTeam > (isShared ? 0.25 : 0.5) * this.#bytesMax) return false;
    team.bytes = ofTeam;
    this.#bytes = all;
    return true;
  }

  /** Gives back bytes that `take` took. */
  give(teamId: string, bytes: number): void {
    this.#teamOf(teamId).bytes -= bytes;
    this.#bytes -= bytes;
  }

  #teamOf(teamId: string): TeamBytes {
    const known = this.#teams.get(teamId);
    if (known !== undefined) return known;
    // Removed rarely: a map that grows and shrinks with each run costs far more.
    if (this.#teams.size >= bounds.rememberedAppsMax) this.#forgetIdle();
    const team = { bytes: 0 };
    this.#teams.set(teamId, team);
    return team;
  }

  #forgetIdle(): void {
    for (const [teamId, { bytes }] of this.#teams) if (bytes === 0) this.#teams.delete(teamId);
  }

  /** Notes that the team asks now. Returns whether another team asked within `appSharedMs`. */
  #isShared(teamId: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (this.#last?.teamId === teamId) {
      this.#last.atMs = nowMs;
    } else {
      this.#lastOfAnother = this.#last;
      this.#last = { teamId, atMs: nowMs };
    }
    return this.#lastOfAnother !== undefined && nowMs - this.#lastOfAnother.atMs < bounds.appSharedMs;
  }
}

interface TeamBytes {
  bytes: number;
}

interface Asked {
  readonly teamId: string;
  atMs: number;
}

/** The bytes that one piece of work holds. After `release` it holds nothing and takes nothing. */
export class HeldBytes {
  readonly #budget: ByteBudget;
  readonly #teamId: string;
  #bytes = 0;
  #isReleased = false;

  constructor(budget: ByteBudget, teamId: string) {
    this.#budget = budget;
    this.#teamId = teamId;
  }

  /** Returns false if there is no room. Then it holds what it held. */
  take(bytes: number): boolean {
    if (this.#isReleased || bytes <= 0) return true;
    if (!this.#budget.take(this.#teamId, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Like `take`, of what is missing until it holds so many. */
  takeUpTo(bytes: number): boolean {
    return this.take(bytes - this.#bytes);
  }

  /** Gives back bytes that `take` took, as soon as nothing holds them. */
  give(bytes: number): void {
    const given = Math.min(bytes, this.#bytes);
    if (given <= 0) return;
    this.#bytes -= given;
    this.#budget.give(this.#teamId, given);
  }

  /** Gives back all that is left. A second call does nothing. */
  release(): void {
    this.#isReleased = true;
    this.give(this.#bytes);
  }
}

/** What a string takes in memory: a byte for each character, or two if one of them needs two. */
export function textBytes(text: string): number {
  const isAscii = Buffer.byteLength(text) === text.length;
  return isAscii ? text.length : 2 * text.length;
}

/** The refusal of work for whose bytes there is no room. */
export function overloaded(facts: { readonly mayHaveRun?: boolean } = {}): Refusal {
  return fail("OVERLOADED", { ...facts, problem: noRoom });
}

const noRoom =
  "Keyrun holds as many bytes of runs as it may, for your team or for all. Try again in a second.";
