import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { keyrunPlaces, kill } from "../harness/keyrun-places.ts";
import type { KeyrunProcess } from "../harness/keyrun-process.ts";

const { place: placeOn } = keyrunPlaces();
const dataDirs: string[] = [];
const served = () => dataDirs.filter((dataDir) => existsSync(join(dataDir, "grpc-address")));
// The terminal is gone, which ends Keyrun. It then removes the file that says where it is.
afterEach(() => expect.poll(served).toEqual([]));

/** Starts Keyrun on a terminal of its own, which `script` of util-linux makes. */
async function startOnTerminal(settings: Record<string, string> = {}) {
  const { dataDir, spawn } = placeOn({ TERM: "xterm-256color", ...settings });
  dataDirs.push(dataDir);
  const keyrun = spawn({}, ["script", "-qefc", "exec ./keyrun serve", "/dev/null"]);
  // What the start text says, as soon as all of it is there.
  await keyrun.until(() => /\/sign-in\/link#\S+\s/.test(keyrun.stdout()));
  return { keyrun, url: /ready: (\S+)/.exec(keyrun.stdout())?.[1] ?? "" };
}

/** Lets Keyrun write a line of its log, and returns it. */
async function loggedLine(keyrun: KeyrunProcess, url: string): Promise<string> {
  await fetch(`${url}/api/apps/echo/run`, { method: "POST", headers: { "x-forwarded-for": "192.0.2.1" } });
  await keyrun.until(() => keyrun.stdout().includes("X-Forwarded-For"));
  const lines = keyrun.stdout().split(/\r?\n/);
  return lines.find((one) => one.includes("X-Forwarded-For")) ?? "";
}

test("a terminal shows a link, which signs the owner in, a coloured log for people, and at Ctrl-C sentences", async () => {
  const { keyrun, url } = await startOnTerminal();
  const [link = ""] = /http\S+\/sign-in\/link#code=[\w-]{43}/.exec(keyrun.stdout()) ?? [];
  expect((await createBrowser(url).openLink(link)).status).toBe(204);

  const line = await loggedLine(keyrun, url);
  expect(line).toContain("\u001b[");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: These are the colours.
  const plain = line.replace(/\u001b\[\d+m/g, "");
  expect(plain).toMatch(/^\[\d\d:\d\d:\d\d\] WARN: X-Forwarded-For arrives, but no proxy is trusted/);
  expect(keyrun.stdout()).not.toContain('{"level"');

  keyrun.type("\x03");
  await expect(keyrun.exited).resolves.toEqual({ code: 0, signal: null });
  const said = keyrun.stdout().slice(keyrun.stdout().indexOf("^C"));
  // A busy machine may make the event loop late.
  expect(said.split(/\r?\n/).filter((one) => !one.includes("the event loop is"))).toEqual([
    "^C",
    "Keyrun stops. What still runs has 10 s to end; Ctrl-C again ends it at once.",
    "Keyrun has stopped.",
    "",
  ]);
});

test.each([{ NO_COLOR: "1" }, { TERM: "dumb" }])(
  "the log has no colour with %o, and Keyrun ends by itself when its terminal is closed",
  async (settings) => {
    const { keyrun, url } = await startOnTerminal(settings);
    expect(await loggedLine(keyrun, url)).not.toContain("\u001b[");
    expect(served()).toHaveLength(1);
    await kill(keyrun);
    await expect.poll(served).toEqual([]);
  },
);
