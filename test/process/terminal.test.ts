import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { type KeyrunProcess, spawnKeyrun } from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const running: KeyrunProcess[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) {
    one.kill("SIGKILL");
    await one.exited;
  }
  // The terminal is gone, which ends Keyrun. It then removes the file that says where it is.
  await vi.waitFor(() => expect(dataDirs.filter(isServed)).toEqual([]), { timeout: 60_000 });
  folders.remove();
});

const dataDirs: string[] = [];
const isServed = (dataDir: string) => existsSync(join(dataDir, "grpc-address"));

/** Starts Keyrun on a terminal of its own, which `script` of util-linux makes. */
function startOnTerminal(settings: Record<string, string> = {}): KeyrunProcess {
  const dataDir = folders.create();
  dataDirs.push(dataDir);
  const ports = { KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0", KEYRUN_DATA_DIR: dataDir };
  const keyrun = spawnKeyrun({ TERM: "xterm-256color", ...ports, ...settings }, [
    "script",
    "-qefc",
    "exec ./keyrun serve",
    "/dev/null",
  ]);
  running.push(keyrun);
  return keyrun;
}

/** What the start text says, as soon as all of it is there. */
async function publicUrlOf(keyrun: KeyrunProcess): Promise<string> {
  await keyrun.until(() => /\/sign-in\/link#\S+\s/.test(keyrun.stdout()));
  return /ready: (\S+)/.exec(keyrun.stdout())?.[1] ?? "";
}

test("a terminal shows a link, which signs the owner in", async () => {
  const keyrun = startOnTerminal();
  const url = await publicUrlOf(keyrun);
  const [link = ""] = /http\S+\/sign-in\/link#code=[\w-]{43}/.exec(keyrun.stdout()) ?? [];
  expect((await createBrowser(url).openLink(link)).status).toBe(204);
});

test("Ctrl-C in a terminal is answered with sentences, and the exit status is 0", async () => {
  const keyrun = startOnTerminal();
  await publicUrlOf(keyrun);
  keyrun.type("\x03");
  await expect(keyrun.exited).resolves.toEqual({ code: 0, signal: null });
  const said = keyrun.stdout().slice(keyrun.stdout().indexOf("^C"));
  // A busy machine may make the event loop late.
  expect(said.split(/\r?\n/).filter((line) => !line.includes("the event loop is"))).toEqual([
    "^C",
    "Keyrun stops. What still runs has 10 s to end; Ctrl-C again ends it at once.",
    "Keyrun has stopped.",
    "",
  ]);
});

test.each([
  ["in colour where the terminal has it", {}, true],
  ["without colour under NO_COLOR", { NO_COLOR: "1" }, false],
  ["without colour on a dumb terminal", { TERM: "dumb" }, false],
])("the log on a terminal is for people, %s", async (_name, settings, coloured) => {
  const keyrun = startOnTerminal(settings);
  const url = await publicUrlOf(keyrun);
  await fetch(`${url}/api/apps/echo/run`, { method: "POST", headers: { "x-forwarded-for": "192.0.2.1" } });
  await keyrun.until(() => keyrun.stdout().includes("X-Forwarded-For"));
  const line = keyrun
    .stdout()
    .split(/\r?\n/)
    .find((one) => one.includes("X-Forwarded-For"));
  expect(line?.includes("\u001b[")).toBe(coloured);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: These are the colours.
  const plain = line?.replace(/\u001b\[\d+m/g, "");
  expect(plain).toMatch(/^\[\d\d:\d\d:\d\d\] WARN: X-Forwarded-For arrives, but no proxy is trusted/);
  expect(keyrun.stdout()).not.toContain('{"level"');
});

test("Keyrun ends by itself when its terminal is closed", async () => {
  const keyrun = startOnTerminal();
  await publicUrlOf(keyrun);
  expect(dataDirs.filter(isServed)).toHaveLength(1);
  keyrun.kill("SIGKILL");
  await keyrun.exited;
  await vi.waitFor(() => expect(dataDirs.filter(isServed)).toEqual([]), { timeout: 60_000 });
});
