import { execFile } from "node:child_process";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { freePort } from "../harness/free-port.ts";
import { keyrunPlaces, stop } from "../harness/keyrun-places.ts";
import { repository, restRun, statusOf } from "../harness/keyrun-process.ts";
import { buildScreen } from "../harness/screen-build.ts";

const { newFolder, place: placeOn } = keyrunPlaces();

test("a first start prints what works, keeps its files private, and is not disturbed by a second one", async () => {
  buildScreen();
  // The process makes the folder.
  const place = placeOn({}, join(newFolder(), "data"));
  const keyrun = await place.start();
  const { publicUrl, internalUrl, dataDir } = keyrun;
  const curl = `curl -sS -X POST ${publicUrl}/api/apps/echo/run -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" -d '{"text":"hello"}'`;
  const makeKey = `export KEYRUN_API_KEY=$(KEYRUN_DATA_DIR=${dataDir} ./keyrun keys create --team demo)`;
  const [words, screenWords = ""] = keyrun.stdout().split(/(?<=hello"}'\n)/);
  expect(words).toBe(`Keyrun is ready: ${publicUrl} (gRPC ${internalUrl.slice("http://".length)})

Make a key, which is shown this once:
  ${makeKey}
Run an app with it:
  ${curl}
`);
  const { stdout } = await typed(`${makeKey}\n${curl}\necho $KEYRUN_API_KEY`);
  const [answer = "", value = ""] = stdout.split("\n");
  expect(JSON.parse(answer)).toMatchObject({ appId: "echo", text: "hello" });

  // Others may read along: no link is printed, but the command for one.
  expect(screenWords).toMatch(/^Manage keys in the browser/);
  const [command = ""] = /(?<=^ {2}).+ sign-in-link$/m.exec(screenWords) ?? [];
  expect(command).toBe(`KEYRUN_DATA_DIR=${dataDir} ./keyrun sign-in-link`);
  expect(keyrun.stdout() + keyrun.stderr()).not.toMatch(/sign-in\/link|code=/);
  const page = await (await fetch(`${publicUrl}/sign-in`)).text();
  expect(page).toContain(`content="KEYRUN_DATA_DIR=${dataDir} ./keyrun"`);
  const link = (await typed(command)).stdout.trim();
  expect((await createBrowser(publicUrl).openLink(link)).status).toBe(204);

  for (const name of ["secret", "service-token", "grpc-address", "keyrun.db"]) {
    expect({ name, mode: statSync(join(dataDir, name)).mode & 0o777 }).toEqual({ name, mode: 0o600 });
  }
  expect(statSync(dataDir).mode & 0o777).toBe(0o700);

  const { version } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));
  const openapi = await fetch(`${publicUrl}/openapi.json`);
  expect(await openapi.json()).toMatchObject({ info: { version } });
  const token = keyrun.serviceToken();
  const metrics = await fetch(`${internalUrl}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  expect(await metrics.text()).toContain(
    `keyrun_build_info{version="${version}",node="${process.versions.node}"} 1\n`,
  );

  const second = place.spawn();
  expect(await second.exited).toEqual({ code: 1, signal: null });
  expect([second.stderr(), second.stdout()]).toEqual([
    expect.stringMatching(/^Keyrun can't start: Another Keyrun already serves the data folder .+\n$/),
    "",
  ]);
  expect(await statusOf(`${publicUrl}/readyz`)).toBe(200);

  await stop(keyrun);
  const next = await place.start();
  expect(next.serviceToken()).toBe(token);
  expect((await restRun(next.publicUrl, { value })).status).toBe(200);
});

test("the text is printed before /readyz first answers 200", async () => {
  const [port, grpcPort] = [await freePort(), await freePort()];
  const out = join(newFolder(), "stdout");
  // A shell redirects the output to a file, which can be read at any moment.
  closeSync(openSync(out, "w"));
  placeOn().spawn({ KEYRUN_PORT: String(port), KEYRUN_GRPC_PORT: String(grpcPort) }, [
    "sh",
    "-c",
    `exec "$0" src/main.ts serve > "$1"`,
    process.execPath,
    out,
  ]);
  // Without a pause, so that the first of these answers is seen.
  while ((await statusOf(`http://127.0.0.1:${port}/readyz`)) !== 200);
  expect(readFileSync(out, "utf8")).toContain(
    `Keyrun is ready: http://127.0.0.1:${port} (gRPC 127.0.0.1:${grpcPort})`,
  );
});

test("npm start passes the signal on", async () => {
  const keyrun = placeOn().spawn({}, ["npm", "start", "--silent"]);
  await keyrun.until(() => keyrun.stdout().includes("curl "));
  keyrun.kill("SIGTERM");
  await keyrun.exited;
  expect(keyrun.stderr()).toContain('"msg":"stopped"');
});

// What is refused, `test/settings/`, `test/app/`, `test/cli/doctor.test.ts` and `test/data-folder/`
// say. The sentences of all of it come to the operator in this way, or as above.
test("an unsafe start is refused with a sentence for each problem and exit code 1, without a stack or a value", async () => {
  const settings = { KEYRUN_PORT: "eighty", KEYRUN_LOG_LEVEL: "loud", KEYRUN_PROT: "1" };
  const refused = placeOn(settings).spawn();
  expect(await refused.exited).toEqual({ code: 1, signal: null });
  expect(refused.stdout()).toBe("");
  expect(refused.stderr()).toMatch(/KEYRUN_PROT is not a setting of Keyrun: did you mean KEYRUN_PORT\?/);
  const lines = refused.stderr().trimEnd().split("\n");
  expect(lines.map((line) => line.startsWith("Keyrun can't start: KEYRUN_"))).toEqual([true, true, true]);
  expect(refused.stderr()).not.toMatch(/eighty|loud/);
});

/** Types the lines into a new shell in the clone, which has no setting. */
function typed(lines: string) {
  return promisify(execFile)("sh", ["-c", lines], { cwd: repository, env: { PATH: process.env.PATH } });
}
