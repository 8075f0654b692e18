import { expect, test } from "vitest";
import { openCarriedWindow } from "#src/app/shared-limit.ts";
import { systemClock } from "#src/base/clock.ts";
import { freePort } from "../harness/free-port.ts";

test("while limits go by the fallback a stop asks Redis for nothing", async () => {
  const redisUrl = `redis://127.0.0.1:${await freePort()}`;
  const config = { sharedLimit: { redisUrl, fallback: "share" as const } };
  const open = (mode: "share" | "shared") =>
    openCarriedWindow({ config, fleetId: "fleet", clock: systemClock, mode: () => mode });
  await expect((await open("share"))?.save()).rejects.toThrow("Redis does not answer");
  await expect((await open("shared"))?.save()).rejects.toThrow("ECONNREFUSED");
});
