/** What is known of a request by its head. */

import type { Clock } from "../../base/clock.ts";
import type { Reservation } from "../../http/handler.ts";
import {
  addressOf,
  authorizationsOf,
  headerOf,
  type RequestHead,
  requestIdOf,
} from "../../http/request-head.ts";
import type { RequestNotes } from "../../http/request-notes.ts";
import { type ByteBudget, type TeamReservation, unlimitedReservation } from "../../limit/byte-budget.ts";
import { type Incoming, isRefusedByParser, type NodeResponse } from "../node-http.ts";
import type { UnreadAnswer } from "../unread-answers.ts";

export interface RequestFactsOptions {
  newRequestId(): string;
  /** How many proxies in front are trusted to name the client's address. */
  readonly trustProxyHops: number;
  /** Called where the entry that one of them wrote can't be read. */
  onUnreadEntry(): void;
  readonly clock: Pick<Clock, "monotonicMs">;
  /** In which the requests with a key reserve. */
  readonly bytes: ByteBudget;
}

/**
 * The facts of a request's head. Each is computed on first use, because most requests need few of
 * them.
 */
export class RequestFacts {
  readonly startMs: number;
  isStream = false;
  #teamId: string | undefined;
  #reservation: TeamReservation | undefined;
  readonly #head: RequestHead;
  readonly #res: NodeResponse;
  readonly #unread: UnreadAnswer;
  readonly notes: RequestNotes | undefined;
  readonly #options: RequestFactsOptions;
  #isCounted = false;
  #address: string | undefined;
  #requestId: string | undefined;

  constructor({ head, res, notes, unread }: Incoming, options: RequestFactsOptions) {
    this.#head = head;
    this.#res = res;
    this.#unread = unread;
    this.notes = notes;
    this.#options = options;
    this.startMs = options.clock.monotonicMs();
  }

  get teamId(): string | undefined {
    return this.#teamId;
  }

  /** The key of the request is right. */
  set teamId(teamId: string | undefined) {
    this.#teamId = teamId;
    this.#unread.noteRightKey();
  }

  get reservation(): Reservation {
    if (this.#teamId === undefined) return unlimitedReservation;
    this.#reservation ??= this.#options.bytes.open(this.#teamId);
    return this.#reservation;
  }

  /** Call it when the request is answered. */
  freeReservation(): void {
    this.#reservation?.release();
  }

  get isCounted(): boolean {
    return this.#isCounted || isRefusedByParser(this.#res);
  }

  set isCounted(isCounted: boolean) {
    this.#isCounted = isCounted;
  }

  get httpVersion(): string {
    return this.#head.httpVersion;
  }

  get method(): string {
    return this.#head.method;
  }

  get target(): string {
    return this.#head.target;
  }

  header(name: string): string | undefined {
    return headerOf(this.#head, name);
  }

  get rawHeaders(): readonly string[] {
    return this.#head.rawHeaders;
  }

  get authorizations(): readonly string[] {
    return authorizationsOf(this.#head);
  }

  get address(): string {
    this.#address ??= addressOf(this.#head, this.#options.trustProxyHops, this.#options.onUnreadEntry);
    return this.#address;
  }

  get requestId(): string {
    this.#requestId ??= requestIdOf(this.#head, this.#options.newRequestId);
    return this.#requestId;
  }
}
