import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCli } from "#src/cli/cli.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { startSmallKeyrun } from "../harness/small-keyrun.ts";

const token = "token-for-tests-only-0123456789-abcdef";

describe.skipIf(!hasOpenssl)("with mutual TLS (skipped where there is no openssl)", () => {
  let folder: string;
  let ours: ReturnType<typeof makeCertificates>;
  let others: ReturnType<typeof makeCertificates>;
  let keyrun: Awaited<ReturnType<typeof startSmallKeyrun>>;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "keyrun-tls-"));
    for (const name of ["ours", "others"]) mkdirSync(join(folder, name));
    ours = makeCertificates(join(folder, "ours"));
    others = makeCertificates(join(folder, "others"));
    writeFileSync(join(folder, "service-token"), token, { mode: 0o600 });
    keyrun = await startSmallKeyrun(token, {
      cert: readFileSync(ours.certFile),
      key: readFileSync(ours.keyFile),
      ca: readFileSync(ours.caFile),
      requestCert: true,
      rejectUnauthorized: true,
    });
  });

  afterAll(async () => {
    await keyrun.close();
    rmSync(folder, { recursive: true });
  });

  async function teamsList(tls?: { certFile: string; keyFile: string; caFile: string }) {
    let stderr = "";
    const code = await createCli({
      env: {
        KEYRUN_DATA_DIR: folder,
        KEYRUN_GRPC_PORT: String(keyrun.port),
        KEYRUN_GRPC_TLS_CERT_FILE: tls?.certFile,
        KEYRUN_GRPC_TLS_KEY_FILE: tls?.keyFile,
        KEYRUN_GRPC_TLS_CLIENT_CA_FILE: tls?.caFile,
      },
      nodeVersion: process.versions.node,
      stdin: Readable.from([]),
      stdout: { write: () => true },
      stderr: {
        write: (text) => {
          stderr += text;
        },
      },
      readFile: (path) => readFileSync(path, "utf8"),
      serve: () => Promise.resolve(0),
    }).run(["teams", "list"]);
    return { code, stderr };
  }

  test("the command shows the listener's own certificate, and is let in", async () => {
    expect(await teamsList(ours)).toEqual({ code: 0, stderr: "" });
  });

  test("a server of another authority never gets the token", async () => {
    const { code, stderr } = await teamsList({ ...ours, caFile: others.caFile });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^The TLS connection to 127\.0\.0\.1:\d+ failed \(\w+\)/);
  });

  test("a certificate of another authority is told", async () => {
    const { code, stderr } = await teamsList({ ...others, caFile: ours.caFile });
    expect(code).toBe(1);
    expect(stderr).toMatch(/TLS/);
  });

  test("no TLS to a listener that has it, and a file that is not there, are told", async () => {
    expect(await teamsList()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/whether the listener uses TLS/),
    });
    const missing = { ...ours, keyFile: join(folder, "nowhere.pem") };
    expect(await teamsList(missing)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^A TLS file can't be read/),
    });
  });
});
