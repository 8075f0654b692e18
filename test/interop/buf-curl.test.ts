import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { reasons } from "#src/refusal/reasons.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";

const keyrun = closedAtEnd(await startKeyrun());

describe.each(["grpc", "grpcweb", "connect"])(
  "buf curl, which has no schema but what reflection tells, by %s",
  (protocol) => {
    const call = (method: string, credential: string | undefined, request: object) => {
      const header = credential === undefined ? [] : ["--header", `authorization: Bearer ${credential}`];
      const options = ["--protocol", protocol, "--http2-prior-knowledge", ...header];
      const url = `${keyrun.internalUrl}/keyrun.v1.${method}`;
      return bufCurl([...options, "--data", JSON.stringify(request), url]);
    };

    test("shows the same life of a key", async () => {
      const teamId = await keyrun.newTeam();
      const token = keyrun.serviceToken;
      const { answer: created } = await call("KeyService/CreateKey", token, { teamId, label: protocol });
      const { key, value } = created as { key: { id: string }; value: string };
      const run = { appId: "echo", text: "hello" };
      expect(await call("RunService/RunApp", value, run)).toMatchObject({
        answer: { appId: "echo", text: "hello" },
      });
      const revoked = await call("KeyService/RevokeKey", token, { teamId, keyId: key.id });
      expect(revoked.answer).toMatchObject({
        key: { id: key.id, state: "KEY_STATE_REVOKED", label: protocol },
      });
      const refused = await call("RunService/RunApp", value, run);
      expect(refused.error).toMatchObject({
        code: "unauthenticated",
        message: expect.stringMatching(/^The API key was revoked at/),
        details: [{ type: "google.rpc.ErrorInfo" }],
      });
      expect((await call("RunService/RunApp", undefined, run)).error).toMatchObject({
        code: "unauthenticated",
        message: reasons.MISSING_API_KEY.words,
      });
    });
  },
);

/**
 * Runs `buf curl` and returns the answer from standard output, or the error from standard error.
 */
function bufCurl(args: readonly string[]): Promise<{ answer?: unknown; error?: unknown }> {
  const buf = join(repository, "node_modules/.bin/buf");
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [buf, "curl", ...args], { cwd: repository }, (failure, stdout, stderr) => {
      try {
        resolve(failure === null ? { answer: JSON.parse(stdout) } : { error: JSON.parse(stderr) });
      } catch (cause) {
        reject(new Error(`buf curl said: ${stderr}${stdout}`, { cause }));
      }
    });
  });
}
