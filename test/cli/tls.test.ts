import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { runCommand } from "../harness/command-line.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

describe.skipIf(!hasOpenssl)("with mutual TLS (skipped where there is no openssl)", () => {
  const folders = createTempFolders();
  let ours: ReturnType<typeof makeCertificates>;
  let others: ReturnType<typeof makeCertificates>;
  let keyrun: Keyrun;

  beforeAll(async () => {
    [ours, others] = [makeCertificates(folders.create()), makeCertificates(folders.create())];
    keyrun = await startKeyrun({ settings: settingsOf(ours) });
  });

  afterAll(async () => {
    await keyrun.close();
    folders.remove();
  });

  const settingsOf = (tls: typeof ours) => ({
    KEYRUN_GRPC_TLS_CERT_FILE: tls.certFile,
    KEYRUN_GRPC_TLS_KEY_FILE: tls.keyFile,
    KEYRUN_GRPC_TLS_CLIENT_CA_FILE: tls.caFile,
  });

  async function teamsList(tls?: typeof ours) {
    const env = { KEYRUN_DATA_DIR: keyrun.config.dataDir, ...(tls && settingsOf(tls)) };
    const { code, stderr } = await runCommand(["teams", "list"], { env });
    return { code, stderr };
  }

  test("the command shows the listener's own certificate, and is let in", async () => {
    expect(await teamsList(ours)).toEqual({ code: 0, stderr: "" });
  });

  test("a server of another authority never gets the token", async () => {
    const { code, stderr } = await teamsList({ ...ours, caFile: others.caFile });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^The TLS connection to 127\.0\.0\.1:\d+ failed \(\w+\): the authority in this command's KEYRUN_GRPC_TLS_CLIENT_CA_FILE /,
    );
  });

  test("a certificate of another authority is reported", async () => {
    const { code, stderr } = await teamsList({ ...others, caFile: ours.caFile });
    expect(code).toBe(1);
    expect(stderr).toMatch(/If the listener uses TLS, set KEYRUN_GRPC_TLS_CERT_FILE, .* as for the server/);
  });

  test("a connection without TLS to a listener with TLS, and a missing file, are reported", async () => {
    expect(await teamsList()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /If the listener uses TLS, set KEYRUN_GRPC_TLS_CERT_FILE, KEYRUN_GRPC_TLS_KEY_FILE and/,
      ),
    });
    const missing = { ...ours, keyFile: join(keyrun.config.dataDir, "nowhere.pem") };
    expect(await teamsList(missing)).toMatchObject({
      code: 1,
      stderr: "KEYRUN_GRPC_TLS_KEY_FILE must be the path of a file that this user may read (ENOENT).\n",
    });
  });
});
