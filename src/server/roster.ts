/**
 * Those that are here now, in no order. A `Set` that fills and empties with every burst of requests builds its table
 * anew each time; this keeps its places.
 */
export class Roster<Member extends object> implements Iterable<Member> {
  readonly #places: (Member | undefined)[] = [];
  readonly #free: number[] = [];

  /** Adds one; its place is for `remove`. */
  add(member: Member): number {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = member;
    return place;
  }

  /** To be called once for each that was added. */
  remove(place: number): void {
    this.#places[place] = undefined;
    this.#free.push(place);
  }

  /** One that comes or goes meanwhile may be left out. */
  *[Symbol.iterator](): Iterator<Member> {
    for (const member of this.#places) if (member !== undefined) yield member;
  }
}
