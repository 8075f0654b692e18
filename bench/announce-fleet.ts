import { announceKeyrun } from "./announce-keyrun.ts";
import { startFleetBasis } from "./start-fleet.ts";
import { announce } from "./subject.ts";

/**
 * Serves as an instance of a fleet. With `withRedis` the processor time of Redis counts, too; that
 * of MongoDB never does: a run whose key is cached does not ask it.
 */
export async function announceFleet({ withRedis }: { readonly withRedis: boolean }): Promise<void> {
  const basis = await startFleetBasis();
  if ("missing" in basis) return announce(basis);
  await announceKeyrun({
    settings: basis.settings,
    morePids: withRedis ? [basis.redisPid] : [],
    stop: basis.stop,
  });
}
