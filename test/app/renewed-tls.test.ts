import { copyFileSync, readFileSync, renameSync, symlinkSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { openTls } from "#src/app/renewed-tls.ts";
import type { TlsFiles } from "#src/settings/tls-files.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { h2cRequest } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const folders = tempFolders();

type Made = ReturnType<typeof makeCertificates>;
const made = (): Made => makeCertificates(folders.create());
const pathsOf = ({ certFile, keyFile, caFile }: Made) => ({ certFile, keyFile, clientCaFile: caFile });

/** Files that are read as those of TLS, and what became of them. */
function opened(first: Made) {
  const [renewed, lines]: [TlsFiles[], string[]] = [[], []];
  const write = (facts: object, words: string) => void lines.push(`${words} ${JSON.stringify(facts)}`);
  const log = { info: write, error: write } as unknown as Parameters<typeof openTls>[1]["log"];
  const tls = openTls(pathsOf(first), { log, everyMs: 5 });
  tls.onRenewed((files) => void renewed.push(files));
  tls.start();
  onTestFinished(tls.stop);
  return { tls, renewed, lines };
}

describe.skipIf(!hasOpenssl)("the files of TLS while Keyrun runs (skipped where there is no openssl)", () => {
  test("a pair that is half written changes nothing, and is taken when it is whole", async () => {
    const [own, next] = [made(), made()];
    const { tls, renewed, lines } = opened(own);
    const before = tls.current();
    copyFileSync(next.certFile, own.certFile);
    await expect.poll(() => lines.length).toBe(1);
    expect(lines[0]).toMatch(/of no use: the certificate before stays .*does not hold the key/);
    expect([tls.current(), renewed]).toEqual([before, []]);
    copyFileSync(next.keyFile, own.keyFile);
    await expect.poll(() => renewed.length).toBe(1);
    expect(tls.current()).toMatchObject({
      cert: readFileSync(next.certFile, "latin1"),
      clientCa: before.clientCa,
    });
    expect(lines.at(-1)).toMatch(/was renewed \{"expires":"\d{4}-/);
  });

  test("files behind a link that is replaced are taken, and the same ones anew are no renewal", async () => {
    const [own, next] = [made(), made()];
    const place = folders.create();
    const current = join(place, "current");
    symlinkSync(join(own.certFile, ".."), current);
    const inside = (path: string) => join(current, path.slice(path.lastIndexOf("/") + 1));
    const linked = {
      ...{ ...own, certFile: inside(own.certFile) },
      ...{ keyFile: inside(own.keyFile), caFile: inside(own.caFile) },
    };
    const { renewed, lines } = opened(linked);
    const turnTo = (made: Made) => {
      symlinkSync(join(made.certFile, ".."), join(place, "next"));
      renameSync(join(place, "next"), current);
    };
    turnTo(next);
    await expect.poll(() => renewed.length).toBe(1);
    copyFileSync(next.keyFile, `${next.keyFile}.copy`);
    renameSync(`${next.keyFile}.copy`, next.keyFile);
    turnTo(own);
    await expect.poll(() => renewed.length).toBe(2);
    expect(lines).toHaveLength(2);
  });

  test("the internal listener shows the new one to new connections, and open ones go on", async () => {
    const [own, next] = [made(), made()];
    const keyrun = await startKeyrun({
      settings: {
        KEYRUN_GRPC_TLS_CERT_FILE: own.certFile,
        KEYRUN_GRPC_TLS_KEY_FILE: own.keyFile,
        KEYRUN_GRPC_TLS_CLIENT_CA_FILE: own.caFile,
      },
    });
    onTestFinished(() => keyrun.close());
    const port = Number(new URL(keyrun.internalUrl).port);
    const clientOf = ({ certFile, keyFile, caFile }: Made) => ({
      ...{ host: "127.0.0.1", port, cert: readFileSync(certFile), key: readFileSync(keyFile) },
      ca: readFileSync(caFile),
    });
    const [old, renewed] = [clientOf(own), clientOf(next)];
    const isLetIn = (client: typeof old) =>
      new Promise<boolean>((resolve) => {
        const socket = connectTls({ ...client, ALPNProtocols: ["h2"] });
        // A client without the right certificate learns of it with the first bytes.
        socket.on("data", () => resolve(true)).on("error", () => resolve(false));
        socket.on("close", () => resolve(false));
        onTestFinished(() => void socket.destroy());
      });
    const session = connect(`https://127.0.0.1:${port}`, old);
    onTestFinished(() => session.destroy());
    expect((await h2cRequest(session, { ":path": "/nowhere" })).status).toBe(404);
    expect([await isLetIn(old), await isLetIn(renewed)]).toEqual([true, false]);
    for (const [from, to] of [
      [next.certFile, own.certFile],
      [next.keyFile, own.keyFile],
      [next.caFile, own.caFile],
    ] as const)
      copyFileSync(from, to);
    await eventually(() => isLetIn(renewed), { ...whileAnswer((isIn) => !isIn), triesMax: 400 });
    expect(await isLetIn(old)).toBe(false);
    expect((await h2cRequest(session, { ":path": "/nowhere" })).status).toBe(404);
    expect(keyrun.logLines.some((line) => line.includes("the certificate of TLS was renewed"))).toBe(true);
  });
});
