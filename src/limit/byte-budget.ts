import { bounds } from "../bounds.ts";
import type { Reservation } from "../http/handler.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

/**
 * Bounds the bytes that runs reserve in this process: for bodies, for the texts that are made of
 * them, and for outputs. What is passed on as an answer is counted apart, by `UnreadAnswers`.
 *
 * A team may reserve half of the bound. All teams together get three quarters. The last quarter is
 * for teams that have reserved little, at most a 64th of the bound each, so that they are served
 * beside those that reserve much.
 */
export class ByteBudget {
  readonly #bytesMax: number;
  readonly #teams = new Map<string, number>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** The bytes that all teams have reserved. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Reserves nothing yet. Call `release` at the end of the work, whatever the end is. */
  open(teamId: string): TeamReservation {
    return new TeamReservation(this, teamId);
  }

  /** Takes all of the bytes or none, and returns whether it took them. */
  take(teamId: string, bytes: number): boolean {
    const ofTeam = (this.#teams.get(teamId) ?? 0) + bytes;
    const all = this.#bytes + bytes;
    const isLittle = 64 * ofTeam <= this.#bytesMax;
    if (ofTeam > this.#bytesMax / 2) return false;
    if (all > (isLittle ? this.#bytesMax : 0.75 * this.#bytesMax)) return false;
    this.#teams.set(teamId, ofTeam);
    this.#bytes = all;
    return true;
  }

  /** Gives back bytes that `take` took. */
  give(teamId: string, bytes: number): void {
    const left = (this.#teams.get(teamId) ?? 0) - bytes;
    if (left > 0) this.#teams.set(teamId, left);
    else this.#teams.delete(teamId);
    this.#bytes -= bytes;
  }
}

/**
 * What one request or one run has reserved. It only grows until `release`, which gives back all of
 * it. After that it reserves nothing and refuses nothing.
 */
export class TeamReservation implements Reservation {
  readonly #budget: ByteBudget;
  readonly #teamId: string;
  #bytes = 0;
  /** What the budget has counted of it. */
  #counted = 0;
  #isReleased = false;

  constructor(budget: ByteBudget, teamId: string) {
    this.#budget = budget;
    this.#teamId = teamId;
  }

  reserve(bytes: number): boolean {
    return this.reserveUpTo(this.#bytes + bytes);
  }

  reserveUpTo(bytes: number): boolean {
    if (this.#isReleased || bytes <= this.#bytes) return true;
    const wanted = reservedPerByte * bytes;
    if (wanted > bounds.uncountedRunBytes) {
      if (!this.#budget.take(this.#teamId, wanted - this.#counted)) return false;
      this.#counted = wanted;
    }
    this.#bytes = bytes;
    return true;
  }

  /** Gives back all of it. A second call does nothing. */
  release(): void {
    this.#isReleased = true;
    if (this.#counted > 0) this.#budget.give(this.#teamId, this.#counted);
    this.#counted = 0;
  }
}

/**
 * What is reserved for each byte of a body or an answer. Two copies of it are in use at any time:
 * the body and the text that is read of it, the text and the call that is made of it, or the answer
 * of the app and its text.
 */
const reservedPerByte = 2;

/** For a request without the key of a team: only runs are bounded. */
export const unlimitedReservation: Reservation = { reserve: () => true, reserveUpTo: () => true };

/** The refusal of work for whose bytes there is no room. */
export function overloaded(facts: { readonly mayHaveRun?: boolean } = {}): Refusal {
  return fail("OVERLOADED", { ...facts, problem: noRoom });
}

const noRoom = "Runs have reserved as many bytes as they may, of your team or of all. Try again in a second.";
