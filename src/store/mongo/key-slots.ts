/**
 * The slots that a team may take next, lowest first; none where it has all the active keys that it
 * may have. `used` holds the numbers of the active keys' slots; some may be past `activeMax` where
 * that was lowered.
 *
 * There is always a number b for which this holds: b plus the active keys at b or above is at most
 * `activeMax`. Slots below b are free to take, because their unique index allows at most b keys
 * there. So the team never has more than `activeMax` active keys, however many inserts choose at
 * once from lists that are out of date.
 */
export function freeSlots(used: ReadonlySet<number>, activeMax: number): number[] {
  const free: number[] = [];
  for (let slot = 0; used.size + free.length < activeMax; slot++) if (!used.has(slot)) free.push(slot);
  return free;
}

/** The slot of an active key: no other active key of the team has it. */
export function activeSlot(teamId: string, slot: number): string {
  return `${teamId}/${slot}`;
}

/** The slot of a revoked or expired key, which frees its old slot for another key. */
export function endedSlot(keyId: string): string {
  return `revoked/${keyId}`;
}

/** The slot of a key that shares the number of one that it replaces: both count as one. */
export function successorSlot(teamId: string, slot: number, keyId: string): string {
  return `${teamId}/${slot}/${keyId}`;
}

/** The number of an active key's slot. */
export function slotNumber(slot: string): number {
  return Number(slot.split("/")[1]);
}
