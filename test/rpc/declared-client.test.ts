import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { signInOwner } from "../harness/members.ts";

const keyrun = closedAtEnd(await startKeyrun());

const transports = {
  gRPC: (baseUrl: string) => createGrpcTransport({ baseUrl }),
  Connect: (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "1.1" }),
};

describe.each(Object.entries(transports))("over %s, a key that a service makes", (_, makeTransport) => {
  async function createdBy(client: string | undefined): Promise<readonly (string | undefined)[]> {
    const transport = makeTransport(keyrun.internalUrl);
    const keys = createClient(KeyService, transport);
    const headers = {
      authorization: `Bearer ${keyrun.serviceToken}`,
      ...(client !== undefined && { "keyrun-client": client }),
    };
    const { key } = await keys.createKey({ teamId: "demo" }, { headers });
    const revoked = await keys.revokeKey({ teamId: "demo", keyId: key!.id }, { headers });
    return [key?.createdBy, revoked.key?.createdBy, revoked.key?.revokedBy];
  }

  test("is the command line's if it says so", async () => {
    expect(await createdBy("command-line")).toEqual(Array(3).fill("the command line"));
  });

  test.each([undefined, "", "Command-Line", "ada@example.com", "constructor", "command-line, command-line"])(
    "is a service's if it says %j, so that no caller writes a name of its own",
    async (client) => {
      expect(await createdBy(client)).toEqual(Array(3).fill("the service token"));
    },
  );
});

test("a member stays the creator of a key, whatever the browser declares", async () => {
  const { keys } = await signInOwner(keyrun);
  const { key } = await keys.createKey({ teamId: "demo" }, { headers: { "keyrun-client": "command-line" } });
  expect(key?.createdBy).toBe("owner@localhost");
});
