import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { bind } from "#src/app/bind.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const settings = { host: "THE_HOST", port: "THE_PORT" };
const at = { host: "::1", port: 80 };

/** The refusal's words if the system fails with `code`. Root can't cause some of these faults. */
async function wordsFor(code: string): Promise<string> {
  const listen = () => Promise.reject(Object.assign(new Error("no"), { code }));
  const refusal = await bind({ listen }, at, settings).catch((thrown: unknown) => thrown);
  expect(refusal).toBeInstanceOf(StartRefused);
  return (refusal as Error).message;
}

test.each(["EADDRINUSE", "EACCES"])("%s is the port's fault", async (code) => {
  expect(await wordsFor(code)).toMatch(/^\[::1\]:80 .*: set THE_PORT to .+, or to 0 for any\.$/);
});

test.each(["ENOTFOUND", "EAI_AGAIN", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EINVAL"])(
  "%s is the host's fault",
  async (code) => {
    expect(await wordsFor(code)).toBe(
      `[::1]:80 can't be bound (${code}): set THE_HOST to an address of this machine, such as 127.0.0.1.`,
    );
  },
);

test("both listeners take IPv4 and, where the machine has it, IPv6 at `::`", async () => {
  const keyrun = await startKeyrun({
    settings: { KEYRUN_HOST: "::", KEYRUN_GRPC_HOST: "::", KEYRUN_GRPC_PLAINTEXT: "true" },
  });
  onTestFinished(keyrun.close);
  const hosts = Object.values(networkInterfaces())
    .flat()
    .some((each) => each?.address === "::1")
    ? ["127.0.0.1", "[::1]"]
    : ["127.0.0.1"];
  const ports = [keyrun.publicUrl, keyrun.internalUrl].map((url) => new URL(url).port);
  for (const host of hosts) {
    const answers = ports.map((port) => fetch(`http://${host}:${port}/healthz`));
    // The internal listener has no such path.
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 404]);
  }
});

test.each(["KEYRUN_PORT", "KEYRUN_GRPC_PORT"])(
  "a port that is taken is refused by its setting, %s",
  async (name) => {
    const taken = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void taken.close());
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    await expect(startKeyrun({ settings: { [name]: `${port}` } })).rejects.toThrow(
      `127.0.0.1:${port} is already in use: set ${name} to a free port`,
    );
  },
);

test("a first start that is refused for its port leaves no data folder", async () => {
  const folders = createTempFolders();
  onTestFinished(folders.remove);
  const dataDir = join(folders.create(), "data");
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await once(taken, "listening");
  const { port } = taken.address() as { port: number };
  const settings = { KEYRUN_DATA_DIR: dataDir, KEYRUN_GRPC_PORT: `${port}` };
  await expect(startKeyrun({ settings })).rejects.toThrow("set KEYRUN_GRPC_PORT to a free port");
  expect(existsSync(dataDir)).toBe(false);
});
