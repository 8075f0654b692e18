import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { startKeyrun } from "../harness/keyrun.ts";

test("the store is asked rarely, however often readiness is probed", async () => {
  let checks = 0;
  const keyrun = await startKeyrun({
    onStores: (stores) => ({
      ...stores,
      check() {
        checks++;
        return stores.check();
      },
    }),
  });
  const startMs = performance.now();
  for (let n = 0; n < 500; n++) expect((await fetch(`${keyrun.publicUrl}/readyz`)).status).toBe(200);
  expect(checks).toBeLessThanOrEqual(Math.ceil((performance.now() - startMs) / bounds.storeCheckMs));
  await keyrun.close();
});
