/** The files of the internal listener's TLS, and what is wrong with them in words. */

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Config } from "./config.ts";

/** The files of the internal listener's TLS, as PEM. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string;
}

/**
 * Reads the files and checks what TLS needs of them, or returns every problem: a sentence that
 * names the setting and says what to do. No problem contains a path or what a file holds.
 */
export function readTlsFiles(
  files: NonNullable<Config["grpcTls"]>,
): { readonly ok: TlsFiles } | { readonly problems: readonly string[] } {
  const problems: string[] = [];
  const checked = <T>(name: string, path: string, check: (pem: string) => T): T | undefined => {
    try {
      return check(readPem(path));
    } catch (thrown) {
      if (!(thrown instanceof Problem)) throw thrown;
      problems.push(`${name} ${thrown.message}.`);
      return undefined;
    }
  };
  const cert = checked(names.cert, files.certFile, readCertificates);
  const key = checked(names.key, files.keyFile, readKey);
  const clientCa = checked(names.clientCa, files.clientCaFile, readCertificates);
  if (cert && key && !cert.first.checkPrivateKey(key.key)) {
    problems.push(
      `${names.key} does not hold the key of the first certificate in ${names.cert}: name two files that were made together.`,
    );
  }
  if (!cert || !key || !clientCa || problems.length > 0) return { problems };
  const ok = { cert: cert.pem, key: key.pem, clientCa: clientCa.pem };
  const refused = refusedByTls(ok);
  return refused === undefined ? { ok } : { problems: [refused] };
}

const names = {
  cert: "KEYRUN_GRPC_TLS_CERT_FILE",
  key: "KEYRUN_GRPC_TLS_KEY_FILE",
  clientCa: "KEYRUN_GRPC_TLS_CLIENT_CA_FILE",
};

/** The rest of a sentence that begins with the setting's name. */
class Problem extends Error {}

function readPem(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (cause) {
    const why = cause instanceof Error && "code" in cause ? ` (${cause.code})` : "";
    throw new Problem(`must be the path of a file that this user may read${why}`);
  }
}

const certificateBlock = /-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----[\s\S]*?-----END \1-----/;
const keyLine = /-----BEGIN (ENCRYPTED |[A-Z]+ )?PRIVATE KEY-----/;

function readCertificates(pem: string): { pem: string; first: X509Certificate } {
  const blocks = pem.match(new RegExp(certificateBlock, "g")) ?? [];
  const isKey = keyLine.test(pem);
  if (blocks.length === 0 && isKey) {
    throw new Problem(`holds a private key and no certificate: ${names.key} takes the key`);
  }
  try {
    const [first] = blocks.map((block) => new X509Certificate(block));
    if (first) return { pem, first };
  } catch {
    // The words of the system's TLS say nothing of the file.
    throw new Problem("holds a damaged certificate: make the file anew from the certificate's PEM");
  }
  throw new Problem('holds no certificate: name a PEM file, with a line "-----BEGIN CERTIFICATE-----"');
}

function readKey(pem: string): { pem: string; key: KeyObject } {
  if (!keyLine.test(pem)) {
    throw new Problem(
      certificateBlock.test(pem)
        ? `holds a certificate and no private key: ${names.cert} takes the certificate`
        : 'holds no private key: name a PEM file, with a line "-----BEGIN PRIVATE KEY-----"',
    );
  }
  if (/-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
    throw new Problem("holds an encrypted key, and Keyrun has no passphrase: decrypt it with `openssl pkey`");
  }
  try {
    return { pem, key: createPrivateKey(pem) };
  } catch {
    throw new Problem("holds a damaged private key: make the file anew from the key's PEM");
  }
}

/** What is well formed may still be refused, such as a key that is too short. */
function refusedByTls({ cert, key, clientCa }: TlsFiles): string | undefined {
  try {
    createSecureContext({ cert, key, ca: clientCa });
    return undefined;
  } catch (cause) {
    const why = cause instanceof Error && "code" in cause ? ` (${cause.code})` : "";
    return `${names.cert}, ${names.key} and ${names.clientCa} can't be used for TLS together${why}: use a key of 2048 bits of RSA or more, or of P-256.`;
  }
}
