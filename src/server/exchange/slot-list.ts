/**
 * The current members, in no order. A `Set` that fills and empties with every burst of requests
 * builds its table anew each time; this list keeps its places.
 */
export class SlotList<Member extends object> implements Iterable<Member> {
  readonly #places: (Member | undefined)[] = [];
  readonly #free: number[] = [];

  /** Adds a member. Returns its place, for `remove`. */
  add(member: Member): number {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = member;
    return place;
  }

  /** Removes the member at the place. Call it once for each added member. */
  remove(place: number): void {
    this.#places[place] = undefined;
    this.#free.push(place);
  }

  /** A member that is added or removed during the iteration may be left out. */
  *[Symbol.iterator](): Iterator<Member> {
    for (const member of this.#places) if (member !== undefined) yield member;
  }
}
