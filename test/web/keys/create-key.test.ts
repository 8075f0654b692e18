import { expect, test } from "vitest";
import { KeySchema } from "#gen/keyrun/v1/key_pb.ts";
import { RpcError } from "../../../web/api/rpc-error.ts";
import { type CreateKeyRequest, createKey, type KeyCreator } from "../../../web/keys/create/create-key.ts";
import { sent } from "../sent-message.ts";

const request = { teamId: "demo", label: "ci-deploy", requestId: "8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d" };
const made = sent(KeySchema, { id: "k1", requestId: request.requestId });
const other = sent(KeySchema, { id: "k2", requestId: "another" });

test("a key that was created comes with its value", async () => {
  const creation = await createKey(
    server({ createKey: () => ({ key: made, value: "shown once" }) }),
    request,
  );
  expect(creation).toMatchObject({ kind: "created", key: { id: "k1" }, value: "shown once" });
});

test("a key whose answer was lost is found by its request id, among others", async () => {
  const creation = await createKey(
    server({ createKey: lost, listKeys: () => ({ keys: [other, made] }) }),
    request,
  );
  expect(creation).toMatchObject({ kind: "lost", keyId: "k1", key: { id: "k1" } });
});

test("where no key has the request id, the attempt failed and may be repeated", async () => {
  const creation = await createKey(server({ createKey: lost, listKeys: () => ({ keys: [other] }) }), request);
  expect(creation).toMatchObject({ kind: "failed", failure: { mayHaveHappened: true } });
});

test("a repeated attempt that finds its key made says so, even where the list can't be read", async () => {
  const used = refusal("already_exists", "REQUEST_ID_USED", { key_id: "k1" });
  const creation = await createKey(server({ createKey: used, listKeys: lost }), request);
  expect(creation).toMatchObject({ kind: "lost", keyId: "k1", key: undefined });
});

test("after a refusal that says that nothing was created, the list is not read", async () => {
  let lists = 0;
  const listKeys = () => {
    lists += 1;
    return { keys: [made] };
  };
  const full = refusal("failed_precondition", "KEY_LIMIT_REACHED", {});
  const creation = await createKey(server({ createKey: full, listKeys }), request);
  expect(creation).toMatchObject({
    kind: "failed",
    failure: { reason: "KEY_LIMIT_REACHED", mayHaveHappened: false },
  });
  expect(lists).toBe(0);
});

test("after an answer that leaves the outcome open, the list is read", async () => {
  const unavailable = refusal("unavailable", "UNAVAILABLE", {});
  const creation = await createKey(
    server({ createKey: unavailable, listKeys: () => ({ keys: [made] }) }),
    request,
  );
  expect(creation.kind).toBe("lost");
});

interface Answers {
  readonly createKey: () => Awaited<ReturnType<KeyCreator<CreateKeyRequest>["createKey"]>>;
  readonly listKeys?: () => Awaited<ReturnType<KeyCreator<CreateKeyRequest>["listKeys"]>>;
}

function server({ createKey, listKeys = () => ({ keys: [] }) }: Answers): KeyCreator<CreateKeyRequest> {
  return { createKey: async () => createKey(), listKeys: async () => listKeys() };
}

function lost(): never {
  throw new TypeError("Failed to fetch");
}

function refusal(code: string, reason: string, metadata: Record<string, string>): () => never {
  return () => {
    throw new RpcError({ code, reason, metadata });
  };
}
