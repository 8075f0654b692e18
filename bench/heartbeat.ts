// What membership in a fleet costs an idle instance: `node bench/heartbeat.ts [seconds] [settle]`.
// Prints the share of a core that each of three instances uses, beside one alone on the embedded
// store and one alone on MongoDB. It first waits `settle` seconds: code that runs four times a
// second is compiled in full only after a quarter of an hour.
import { setTimeout as sleep } from "node:timers/promises";
import { cpuUsOf, processTree } from "./processes.ts";
import { startFleetBasis } from "./start-fleet.ts";
import { type StartedKeyrun, startKeyrun } from "./start-keyrun.ts";

const [seconds, settleSeconds] = [Number(process.argv[2] ?? 60), Number(process.argv[3] ?? 10)];
// The lone instance has a database of its own: a fleet and one alone don't share one.
const bases = [await startFleetBasis(), await startFleetBasis()];
const [ofFleet, ofLone] = bases.map((basis) => {
  if ("missing" in basis) throw new Error(basis.missing);
  return basis;
});
const { KEYRUN_REDIS_URL: _, ...lone } = ofLone!.settings;
const embedded = await startKeyrun();
const onMongo = await startKeyrun(lone);
const fleet: StartedKeyrun[] = [];
for (let instance = 1; instance <= 3; instance += 1) fleet.push(await startKeyrun(ofFleet!.settings));
const all = [embedded, onMongo, ...fleet];

// What a start leaves to be done later is no part of it.
await sleep(settleSeconds * 1_000);
const share = async ({ pid }: StartedKeyrun) => {
  const pids = processTree(pid);
  const [beforeUs, beforeMs] = [cpuUsOf(pids), performance.now()];
  await sleep(seconds * 1_000);
  return ((cpuUsOf(pids) - beforeUs) / 10 / (performance.now() - beforeMs)).toFixed(2);
};
const [embeddedShare, mongoShare, ...fleetShares] = await Promise.all(all.map(share));
console.log(`alone: ${embeddedShare} % of a core on the embedded store, ${mongoShare} % on MongoDB`);
console.log(`in a fleet of three: ${fleetShares.join(", ")} %`);
for (const { stop } of all) await stop();
for (const basis of [ofFleet!, ofLone!]) await basis.stop();
