import { afterEach, expect, test } from "vitest";
import { startAttack, startOtherCaller } from "../harness/attack.ts";
import { type AttackedKeyrun, attackedKeyrun } from "../harness/attacked-keyrun.ts";
import { figure } from "../harness/campaigns.ts";

let keyrun: AttackedKeyrun | undefined;

afterEach(() => keyrun?.close());

const connections = 40;
const chunks = 4_000;

test.each([
  { to: "a run without a key", path: "/api/apps/echo/run", headers: "" },
  {
    to: "an RPC over Connect",
    path: "/keyrun.v1.SessionService/GetSession",
    headers: `Connect-Protocol-Version: 1\r\nContent-Type: application/json\r\n`,
  },
])(
  "bodies of 4,000 chunks of one byte to $to, over 40 connections, take at most 350 MB, and another caller is answered",
  async ({ to, path, headers }) => {
    keyrun = await attackedKeyrun();
    const other = startOtherCaller(keyrun);
    const attack = startAttack("tiny-chunks", [keyrun.port, connections, chunks, path, headers]);
    await attack.until(({ answers }) => answers >= 600);
    await other.stop();
    await attack.stop();

    const { requests } = attack.load();
    const { peak } = keyrun.memory();
    figure(`${to}: requests`, requests);
    figure(`${to}: at most`, peak, "MB");
    expect(attack.load().connections).toBeGreaterThanOrEqual(connections);
    expect(peak).toBeLessThanOrEqual(350);
  },
);
