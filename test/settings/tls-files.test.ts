import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { readTlsFiles } from "#src/settings/tls-files.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

const cert = "KEYRUN_GRPC_TLS_CERT_FILE";
const key = "KEYRUN_GRPC_TLS_KEY_FILE";
const clientCa = "KEYRUN_GRPC_TLS_CLIENT_CA_FILE";

describe.skipIf(!hasOpenssl)("the files of TLS (skipped where there is no openssl)", () => {
  let folder: string;
  let good: { certFile: string; keyFile: string; clientCaFile: string };
  let other: typeof good;

  beforeAll(() => {
    folder = folders.create();
    [good, other] = [folder, folders.create()].map((into) => {
      const { certFile, keyFile, caFile } = makeCertificates(into);
      return { certFile, keyFile, clientCaFile: caFile };
    }) as [typeof good, typeof good];
  });

  /** The problems with some of the files replaced. */
  function problems(changed: Partial<typeof good>): readonly string[] {
    const outcome = readTlsFiles({ ...good, ...changed });
    return "ok" in outcome ? [] : outcome.problems;
  }

  function file(name: string, text: string | Buffer): string {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  }

  function openssl(...args: string[]): void {
    execFileSync("openssl", args, { stdio: "pipe", cwd: folder });
  }

  test("good files are read as they are, also with text around the PEM and more than one certificate", () => {
    const chain = `subject=/CN=keyrun\n${readFileSync(good.certFile, "utf8")}\n${readFileSync(good.clientCaFile, "utf8")}`;
    expect(readTlsFiles({ ...good, certFile: file("chain.pem", chain) })).toEqual({
      ok: {
        cert: chain,
        key: readFileSync(good.keyFile, "utf8"),
        clientCa: readFileSync(good.clientCaFile, "utf8"),
      },
    });
  });

  test("a file that is not there, or is a folder, is named by its setting", () => {
    expect(problems({ certFile: join(folder, "nowhere") })).toEqual([
      `${cert} must be the path of a file that this user may read (ENOENT).`,
    ]);
    expect(problems({ keyFile: folder })).toEqual([
      `${key} must be the path of a file that this user may read (EISDIR).`,
    ]);
    expect(problems({ clientCaFile: join(good.certFile, "a") })).toEqual([
      `${clientCa} must be the path of a file that this user may read (ENOTDIR).`,
    ]);
  });

  test("every file that is wrong is reported, not only the first", () => {
    const nowhere = join(folder, "nowhere");
    expect(problems({ certFile: nowhere, keyFile: nowhere, clientCaFile: nowhere })).toHaveLength(3);
  });

  test("a file without a certificate or a key is said to hold none", () => {
    for (const [name, text] of [
      ["empty.pem", ""],
      ["text.pem", "a certificate will follow\n"],
      ["cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB"],
      ["bytes.pem", Buffer.from([0x30, 0x82, 1, 0, 255, 254])],
    ] as const) {
      const path = file(name, text);
      const none = 'holds no certificate: name a PEM file, with a line "-----BEGIN CERTIFICATE-----".';
      expect(problems({ certFile: path })).toEqual([`${cert} ${none}`]);
      expect(problems({ clientCaFile: path })).toEqual([`${clientCa} ${none}`]);
      expect(problems({ keyFile: path })).toEqual([
        `${key} holds no private key: name a PEM file, with a line "-----BEGIN PRIVATE KEY-----".`,
      ]);
    }
  });

  test("swapped files are told apart", () => {
    expect(problems({ certFile: good.keyFile, keyFile: good.certFile })).toEqual([
      `${cert} holds a private key and no certificate: ${key} takes the key.`,
      `${key} holds a certificate and no private key: ${cert} takes the certificate.`,
    ]);
  });

  test("a damaged certificate or key is said to be damaged", () => {
    const damaged = (path: string) =>
      readFileSync(path, "utf8").replace(/\n[^-]{20}/, "\nAAAAAAAAAAAAAAAAAAAA");
    expect(problems({ certFile: file("damaged-cert.pem", damaged(good.certFile)) })).toEqual([
      `${cert} holds a damaged certificate: make the file anew from the certificate's PEM.`,
    ]);
    expect(problems({ keyFile: file("damaged-key.pem", damaged(good.keyFile)) })).toEqual([
      `${key} holds a damaged private key: make the file anew from the key's PEM.`,
    ]);
  });

  test("an encrypted key is refused in both of its forms, and the advice decrypts it", () => {
    openssl("pkey", "-in", good.keyFile, "-aes128", "-passout", "pass:p", "-out", "pkcs8.pem");
    openssl("ec", "-in", good.keyFile, "-aes128", "-passout", "pass:p", "-out", "sec1.pem");
    for (const name of ["pkcs8.pem", "sec1.pem"]) {
      expect(problems({ keyFile: join(folder, name) })).toEqual([
        `${key} holds an encrypted key, and Keyrun has no passphrase: decrypt it with \`openssl pkey\`.`,
      ]);
    }
    openssl("pkey", "-in", "sec1.pem", "-passin", "pass:p", "-out", "decrypted.pem");
    expect(problems({ keyFile: join(folder, "decrypted.pem") })).toEqual([]);
  });

  test("a key of another certificate is refused", () => {
    expect(problems({ keyFile: other.keyFile })).toEqual([
      `${key} does not hold the key of the first certificate in ${cert}: name two files that were made together.`,
    ]);
  });

  test("a key that TLS finds too short is refused in words that name the settings", () => {
    const short = ["-newkey", "rsa:512", "-nodes", "-subj", "/CN=short", "-keyout", "short-key.pem"];
    openssl("req", "-x509", ...short, "-out", "short.pem");
    const [problem, ...more] = problems({
      certFile: join(folder, "short.pem"),
      keyFile: join(folder, "short-key.pem"),
    });
    expect(problem).toMatch(
      new RegExp(`^${cert}, ${key} and ${clientCa} can't be used for TLS together \\(ERR_\\w+\\): use a key`),
    );
    expect(more).toEqual([]);
  });
});
