import { describe, expect, test } from "vitest";
import { readSources } from "../harness/source-facts.ts";
import { findSecurityWrites, securityWrites } from "./security-writes.ts";

const sources = [...readSources("src")].filter(([path]) => !path.startsWith("src/store/"));
const found = sources.flatMap(([path, text]) => findSecurityWrites(path, text));

test("no store write that takes a right away goes around changeSecurityState, or is called by another kind", () => {
  const astray = found.filter(({ kind, write }) => !securityWrites[kind ?? ""]?.includes(write));
  expect(astray).toEqual([]);
});

test("the check has found every such write, so none of them was only renamed", () => {
  const seen = new Set(found.map(({ write }) => write));
  expect([...seen].sort()).toEqual(Object.values(securityWrites).flat().sort());
});

test("only changeSecurityState raises a floor", () => {
  const raised = sources.filter(([, text]) => /\braise\b/.test(text)).map(([path]) => path);
  expect(raised).toEqual(["src/cache/floored-cache.ts", "src/fleet/security-state.ts"]);
});

describe("a write outside changeSecurityState is found", () => {
  const cases: Record<string, [text: string, write: string, kind?: string]> = {
    "by the store's name": ["stores.keys.revoke({})", "keys.revoke"],
    "by its port's type": [
      "interface Parts { readonly store: TeamStore }\nconst f = ({ store }: Parts) => store.update(id, {});",
      "teams.update",
    ],
    "by a part of the type": [
      'const f = (kept: Pick<SessionStore, "delete">) => kept.delete(id);',
      "sessions.delete",
    ],
    "under another name": ["const { members: people } = stores; people.remove(id, email);", "members.remove"],
    "by an alias": ["const mine = stores.preview; mine.set(email, false);", "preview.set"],
    "taken out of the store": ["const { release } = stores.users;", "users.release"],
    "taken out as a parameter": ["const f = ({ update }: AppStore) => update(id, {});", "apps.update"],
    "handed on without a call": ["createThing({ withdrawn: users.release });", "users.release"],
    "beside the call": [
      'await changeSecurityState("app", async () => change); await apps.delete(id);',
      "apps.delete",
    ],
    "in a computed place": ['stores["apps"]["delete"](id);', "apps.delete"],
    "in a change of another kind": [
      'await changeSecurityState("member", () => stores.keys.revoke({}));',
      "keys.revoke",
      "member",
    ],
  };
  test.each(Object.entries(cases))("%s", (_, [text, write, kind]) => {
    expect(findSecurityWrites("src/keys/a.ts", text)).toEqual([{ path: "src/keys/a.ts", write, kind }]);
  });

  test("but a write inside a change of its own kind is not, however the function is reached", () => {
    const text = `
      await changeSecurityState("key", async () => {
        const key = await stores.keys.revoke({});
        return key && { id: key.id, version: key.version };
      });
      await caches.changeSecurityState("app", () => stores.apps.delete(id));
      const preview = new Map();
      preview.set("x", 1);
      await stores.members.add(member);
      await stores.sessions.deleteExpired({});
    `;
    expect(findSecurityWrites("src/keys/a.ts", text)).toEqual([
      { path: "src/keys/a.ts", write: "keys.revoke", kind: "key" },
      { path: "src/keys/a.ts", write: "apps.delete", kind: "app" },
    ]);
  });
});
