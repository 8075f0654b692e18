import { afterAll, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { startAttack } from "../harness/attack.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { serveHostileApps } from "../harness/hostile-apps.ts";
import { manage } from "../harness/keyrun.ts";
import { isOverloaded, restRunOnce, serveKeyrun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";

/** Of what the bounds allow one key at once. */
const percent = campaignSize("memory");
const holdMs = 100 * percent;
const copiesOfApp = 4;

/** What a caller does with which apps, how often: four apps have 256 runs and 1,024 streams. */
const attacks: Record<string, readonly [what: string, apps: readonly string[], times: number][]> = {
  "runs of 1 MiB that HTTP apps don't answer": [["runs", ["silent"], 256]],
  "runs of 1 MiB that gRPC apps don't answer": [["runs", ["grpc-silent"], 256]],
  "streams of 1 MiB that HTTP apps don't answer": [["streams", ["silent"], 1_024]],
  "streams of 1 MiB that gRPC apps don't answer": [["streams", ["grpc-silent"], 1_024]],
  "lines without end": [["short streams", ["line-without-end"], 1_024]],
  "events without end": [["short streams", ["event-without-end"], 1_024]],
  "JSON but for its last byte": [
    ["short streams", ["whole-but-a-byte"], 1_024],
    ["short runs", ["whole-but-a-byte"], 256],
  ],
  "gRPC messages but for their last byte": [
    ["short streams", ["grpc-message-without-end"], 1_024],
    ["short runs", ["grpc-message-without-end"], 256],
  ],
  "events of 1 MiB that nobody reads": [["short streams", ["long-events"], 1_024]],
  "lines of 1 MiB of wide characters that nobody reads": [["short streams", ["long-wide-lines"], 1_024]],
  "gRPC messages of 1 MiB that nobody reads": [["short streams", ["grpc-long-messages"], 1_024]],
  "chunks of a byte, heads without end, 19,000 values": [
    ["short runs", ["bytes-in-chunks", "heads-without-end", "long-head", "dense-answer"], 600],
  ],
  "uploads over HTTP/2 but for their last byte": [["uploads", ["echo"], 1_000]],
  "uploads over HTTP/1.1 but for their last byte": [["uploads over HTTP/1.1", ["echo"], 600]],
  "compressed uploads": [["compressed uploads", ["echo"], 1_000]],
  "JSON of 19,000 values": [["dense runs", ["echo"], 1_000]],
  "pipelined runs of 1 MiB that nobody reads": [["pipelines", ["echo"], 1_000]],
  "answers of 1 MiB that nobody reads": [["blocked runs", ["echo", "long-answer"], 1_000]],
  "runs with an Idempotency-Key": [["keyed runs", ["silent", "long-answer", "echo"], 600]],
};

const folders = tempFolders();

const keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" });
const management = manage(keyrun.internalUrl, keyrun.serviceToken());
const apps = await serveHostileApps();
for (const [name, backend] of Object.entries(apps.backends)) {
  for (const id of copiesOf(name)) await management.apps.createApp({ app: { id, backend } });
}
const newKey = async (plan: Plan) => (await management.newKey(await management.newTeam(plan))).value;
const value = await newKey(Plan.FREE);
for (let run = 0; run < 5_000; run++) await restRunOnce(keyrun.publicUrl, { value, text: "warm" });

afterAll(async () => {
  management.disconnect();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
  await apps[Symbol.asyncDispose]();
});

test.each(Object.entries(attacks))(
  "%s: one key takes at most 1 GB, and another team is served",
  async (_name, parts) => {
    await attack(parts, percent);
  },
);

test("all of it at once: one key takes at most 1 GB, and another team is served", async () => {
  // One key has 3,000 requests a minute.
  await attack(Object.values(attacks).flat(), percent / 6);
  figure("at most", residentMemory(keyrun.pid).peak, "MB");
});

async function attack(parts: (typeof attacks)[string], share: number): Promise<void> {
  const key = await newKey(Plan.ENTERPRISE);
  // A team of its own for each attack: in all of them, one would come to its limit.
  const other = await newKey(Plan.FREE);
  const { port } = new URL(keyrun.publicUrl);
  const asked = parts.flatMap(([what, names, times]) => {
    const ids = names.flatMap((app) => (app === "echo" ? app : copiesOf(app)));
    return [what, Math.ceil((share * times) / 100), ids.join(",")];
  });
  const running = startAttack("run-memory", [port, key, ...asked]);
  await running.until(({ requests }) => requests > 0);
  const end = performance.now() + holdMs;
  let served = 0;
  while (served === 0 || performance.now() < end) {
    const answer = await restRunOnce(keyrun.publicUrl, { value: other, text: "served" });
    // The attackers take the processor, too: the event loop may be late. Room for bytes there is.
    expect(answer.body).not.toContain("reserved as many bytes");
    if (!isOverloaded(answer)) expect(answer.status).toBe(200);
    if (answer.status === 200) served += 1;
  }
  await running.stop();
  expect(residentMemory(keyrun.pid).peak).toBeLessThanOrEqual(1_000);
}

function copiesOf(app: string): string[] {
  return Array.from({ length: copiesOfApp }, (_, at) => `${app}-${at}`);
}
