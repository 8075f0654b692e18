import { encodeCrockford, type RandomBytes } from "../base/ids.ts";

/** Makes the id of an event that happened at this time. */
export type NewEventId = (timeMs: number) => string;

const timeBytes = 6;
const sequenceBytes = 3;
/** With the others 20 bytes, which are 32 characters. */
const randomIdBytes = 11;

/**
 * Makes ids like `evt_01jd2q8k4m7n9p3r5s6t8v0w1x2y3z4a`: their order is that of their times, and of
 * their creation within a millisecond. 88 random bits tell those of several instances apart.
 */
export function createEventIds(randomBytes: RandomBytes): NewEventId {
  let lastMs = 0;
  let sequence = 0;
  return (timeMs) => {
    sequence = timeMs === lastMs ? sequence + 1 : 0;
    lastMs = timeMs;
    const bytes = Buffer.alloc(timeBytes + sequenceBytes + randomIdBytes);
    bytes.writeUIntBE(timeMs, 0, timeBytes);
    bytes.writeUIntBE(sequence % 2 ** 24, timeBytes, sequenceBytes);
    bytes.set(randomBytes(randomIdBytes), timeBytes + sequenceBytes);
    return `evt_${encodeCrockford(bytes)}`;
  };
}
