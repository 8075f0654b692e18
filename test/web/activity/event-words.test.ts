import { expect, test } from "vitest";
import { AuditEventSchema } from "#gen/keyrun/v1/audit_event_pb.ts";
import { detailInWords } from "../../../web/activity/event-words.ts";
import { sent } from "../../harness/sent-message.ts";

const words = (detail: string) => detailInWords(sent(AuditEventSchema, { detail }), (id) => `key ${id}`);

test("the detail of an event is said in words, a pair at a time, and a key by its name", () => {
  expect(words("changed=display_name,plan plan=pro")).toEqual(["changed: display name, plan", "plan: pro"]);
  expect(words("overlap=3600s replaced_by_key_id=7k3f")).toEqual(["overlap: 3600s", "replaced by: key 7k3f"]);
  expect(words("expire_time=2026-12-01T00:00:00.000Z")).toEqual(["expire time: 2026-12-01T00:00:00.000Z"]);
});

test("an event without a detail, and one of a form that is newer than the page, say nothing more", () => {
  expect(words("")).toEqual([]);
  expect(words("whatever")).toEqual([]);
});
