import { bounds } from "../../bounds.ts";
import { ForeignRedis } from "./redis-trouble.ts";

/**
 * By what an instance tells the Redis of its fleet from any other. Redis holds the id of the fleet
 * and a random mark. The mark tells two Redises of one fleet apart. It lapses a minute after the
 * last instance has left, so that the Redis is free for another fleet.
 */
export interface FleetOfRedis {
  /** The id of the fleet, from its store. It is part of every key. */
  readonly id: string;
  /** Of no space. "" writes none, to look only. */
  readonly newMark: () => string;
  /**
   * The marks of the Redises in which the other instances share limits now: of all of them, or of
   * those that joined before this one.
   */
  readonly marksOf: (others: "all" | "earlier") => readonly string[];
  /** Called with the mark of the Redis in use; undefined: none is in use any more. */
  readonly onMark: (mark: string | undefined) => void;
}

/** Evaluates a script: its text, the number of its keys, and its words. */
type Evaluate = (words: readonly string[]) => Promise<unknown>;

/**
 * The fleet's mark in this Redis; "" where there is none and none is written. An empty Redis gets a
 * new one, unless others share limits elsewhere: then it is another. Rejects with ForeignRedis
 * where this Redis must not be used.
 */
export async function takeRedis(evaluate: Evaluate, fleet: FleetOfRedis): Promise<string> {
  const others = fleet.marksOf("all");
  const mark = (await readMark(evaluate, fleet.id, others.length === 0 ? fleet.newMark() : "")) ?? "";
  if (others.some((other) => other !== mark)) throw new ForeignRedis(elsewhere);
  return mark;
}

/**
 * Looks again, on a connection that has not ended: this is the same Redis, which is marked again if
 * somebody has emptied it. Rejects as `takeRedis` does; of two instances with two Redises, the
 * later one yields.
 */
export async function keepRedis(evaluate: Evaluate, fleet: FleetOfRedis, known: string): Promise<string> {
  const mark = (await readMark(evaluate, fleet.id, known)) ?? known;
  if (fleet.marksOf("earlier").some((other) => other !== mark)) throw new ForeignRedis(elsewhere);
  return mark;
}

/** The mark of the fleet; undefined where Redis has none. Writes `given` then, unless it is "". */
async function readMark(evaluate: Evaluate, fleetId: string, given: string): Promise<string | undefined> {
  const words = ["1", "keyrun:fleet", fleetId, given, String(bounds.fleetMarkMs)];
  const held = await evaluate([markScript, ...words]);
  if (typeof held !== "string") return undefined;
  const [holder, mark] = held.split(" ");
  if (holder === fleetId && mark) return mark;
  throw new ForeignRedis(
    `it is in use by another fleet, of id ${holder}, and this one has id ${fleetId}. Give each fleet a Redis of its own. It is free a minute after the other fleet has left it`,
  );
}

const elsewhere =
  "it is another Redis than the one in which the other instances of this fleet share limits. Give all of them the same KEYRUN_REDIS_URL";

/**
 * Returns what Redis holds, in a key that the instances keep alive. By commands on lists: Keyrun's
 * user in Redis may need no other.
 */
const markScript = `
local held = redis.call('LINDEX', KEYS[1], 0)
if not held and ARGV[2] ~= '' then
  held = ARGV[1] .. ' ' .. ARGV[2]
  redis.call('RPUSH', KEYS[1], held)
end
local own = ARGV[1] .. ' '
if held and string.sub(held, 1, #own) == own then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return held
`;
