/**
 * The slots that a team may take next, lowest first; none where it has as many active keys as it may. `used`
 * holds the numbers of the active keys' slots, which may be past `activeMax` where that was lowered.
 *
 * There is always a number b with: b plus the active keys at b or above make at most `activeMax`. Slots below b
 * are free to take, for their unique index keeps them to b keys at the most; so however many inserts choose at
 * once from lists that are out of date, the team never has more than `activeMax`.
 */
export function freeSlots(used: ReadonlySet<number>, activeMax: number): number[] {
  const free: number[] = [];
  for (let slot = 0; used.size + free.length < activeMax; slot++) if (!used.has(slot)) free.push(slot);
  return free;
}

/** What an active key holds: the slot that no other active key of the team has. */
export function activeSlot(teamId: string, slot: number): string {
  return `${teamId}/${slot}`;
}

/** What a revoked key holds, which leaves its slot to another. */
export function revokedSlot(keyId: string): string {
  return `revoked/${keyId}`;
}

/** The number of an active key's slot. */
export function slotNumber(slot: string): number {
  return Number(slot.slice(slot.lastIndexOf("/") + 1));
}
