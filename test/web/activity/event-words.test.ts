import { expect, test } from "vitest";
import { AuditChannel, AuditEventSchema, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import {
  actionChoices,
  actionInWords,
  detailInWords,
  originInWords,
} from "../../../web/activity/event-words.ts";
import { exactTime } from "../../../web/time/local-format.ts";
import { sent } from "../sent-message.ts";

const words = (detail: string) => detailInWords(sent(AuditEventSchema, { detail }), (id) => `key ${id}`);

test("an event is named by what was done in words, and by what was tried where it was not done", () => {
  const named = (action: string, outcome: AuditOutcome = AuditOutcome.DONE) =>
    actionInWords(sent(AuditEventSchema, { action, outcome }));
  expect(named("key.create")).toBe("Key created");
  expect(named("key.create", AuditOutcome.REFUSED)).toBe("Create a key");
  expect(named("key.create", AuditOutcome.UNKNOWN)).toBe("Create a key");
  expect(actionChoices).toContainEqual({ value: "key.revoke", words: "Key revoked" });
  // No name of an action is shown as it is, also of one that is newer than the page.
  expect(named("invented_thing.put_away")).toBe("Invented thing: put away");
  expect(actionChoices.filter(({ words }) => /[._]/.test(words))).toEqual([]);
});

test("the detail of an event is said in words, a pair at a time, and a key by its name", () => {
  expect(words("changed=display_name,plan plan=pro")).toEqual(["changed: display name", "plan: pro"]);
  expect(words("changed=plan plan=pro")).toEqual(["plan: pro"]);
  const rotated = (overlap: string) => words(`overlap=${overlap} replaced_by_key_id=7k3f`);
  expect(rotated("86400s")).toEqual(["the old key works for 1 day", "replaced by key 7k3f"]);
  expect(rotated("5400s")[0]).toBe("the old key works for 90 minutes");
  expect(rotated("0s")[0]).toBe("the old key ended at once");
  const time = "2026-12-01T00:00:00.000Z";
  expect(words(`expire_time=${time}`)).toEqual([`expires ${exactTime(Date.parse(time))}`]);
  expect(words("apps=echo,shout,+90 requests_per_minute=10")).toEqual([
    ...["apps: echo, shout, 90 more", "limit: 10 requests a minute"],
  ]);
});

test("what is done on the command line is said to be so once", () => {
  const event = { channel: AuditChannel.COMMAND_LINE, address: "127.0.0.1" };
  const origin = (actor: string) => originInWords(sent(AuditEventSchema, { ...event, actor }));
  expect(origin("the command line")).toBe("from 127.0.0.1");
  expect(origin("ada@example.com")).toBe("on the command line, from 127.0.0.1");
});

test("an event without a detail, and one of a form that is newer than the page, say nothing more", () => {
  expect(words("")).toEqual([]);
  expect(words("whatever")).toEqual([]);
});
