import { execFileSync } from "node:child_process";
import { join } from "node:path";

export const hasOpenssl = (() => {
  try {
    execFileSync("openssl", ["version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

/** An authority and its certificate for 127.0.0.1, valid for servers and clients, as PEM files. */
export function makeCertificates(folder: string) {
  const files = {
    caFile: join(folder, "ca.pem"),
    certFile: join(folder, "cert.pem"),
    keyFile: join(folder, "key.pem"),
  };
  const caKeyFile = join(folder, "ca-key.pem");
  const make = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-days",
    "2",
  ];
  openssl([...make, "-subj", "/CN=authority", "-keyout", caKeyFile, "-out", files.caFile]);
  const signed = [
    "-CA",
    files.caFile,
    "-CAkey",
    caKeyFile,
    "-addext",
    "subjectAltName=DNS:localhost,IP:127.0.0.1",
  ];
  const leaf = [
    "-addext",
    "basicConstraints=critical,CA:FALSE",
    "-keyout",
    files.keyFile,
    "-out",
    files.certFile,
  ];
  openssl([...make, "-subj", "/CN=keyrun", ...signed, ...leaf]);
  return files;
}

function openssl(args: string[]): void {
  execFileSync("openssl", args, { stdio: "pipe" });
}
