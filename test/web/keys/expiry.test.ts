import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { KeySchema, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { bounds } from "../../../web/bounds.ts";
import { dayOf, type Expiry, expiryChoices, expiryMs, expiryProblem } from "../../../web/keys/form/expiry.ts";
import { draftFields, draftProblems, emptyDraft, noProblems } from "../../../web/keys/form/key-draft.ts";
import { oldKeyEndMs } from "../../../web/keys/rotate/overlap.ts";
import { sent } from "../sent-message.ts";

const nowMs = Date.UTC(2026, 10, 23, 12, 0);
const dayMs = 24 * 60 * 60 * 1_000;
const on = (date: string): Expiry => ({ choice: "date", date });
const keyUntil = (id: string, ms: number | null, state: KeyState = KeyState.ACTIVE) =>
  sent(KeySchema, { id, state, ...(ms !== null && { expireTime: timestampFromMs(ms) }) });

test("each span ends after as many days as it says, and never is no end", () => {
  const days = expiryChoices.map(({ choice }) => expiryMs({ choice, date: "" }, nowMs));
  expect(days.map((ms) => ms && (ms - nowMs) / dayMs)).toEqual([null, 30, 90, 365, null]);
});

test("a chosen day is the last on which the key works, in the person's own zone", () => {
  const ms = expiryMs(on("2026-12-31"), nowMs)!;
  expect(dayOf(ms)).toBe("2026-12-31");
  expect(dayOf(ms + 1_000)).toBe("2027-01-01");
});

test("a day that Keyrun would refuse is refused at the field, with what helps", () => {
  expect(expiryProblem(on(""), nowMs)).toBe("Choose a day.");
  expect(expiryProblem(on("2026-11-20"), nowMs)).toMatch(/over/);
  expect(expiryProblem(on("2026-12-31"), nowMs)).toBe(null);
  expect(expiryProblem(on(dayOf(nowMs + (bounds.expiryDaysMax + 2) * dayMs)), nowMs)).toMatch(/ten years/);
  expect(expiryProblem(on("2026-12-31"), nowMs, nowMs + 3 * dayMs)).toMatch(/earlier/);
  for (const { choice } of expiryChoices.slice(0, -1)) {
    expect(expiryProblem({ choice, date: "" }, nowMs)).toBe(null);
  }
});

test.each(["0", "61", "-1", "1.5", "ten", "1e1", "9".repeat(12)])(
  "a limit of %s requests a minute is refused under a plan of 60",
  (requestsPerMinute) => {
    const problems = draftProblems({ ...emptyDraft, requestsPerMinute }, nowMs, 60);
    expect(problems.requestsPerMinute).toMatch(/from 1 to 60/);
  },
);

test("an empty draft asks for nothing but a key, and a full one for all that it says", () => {
  expect(draftFields(emptyDraft, nowMs)).toEqual({ label: "" });
  const full = {
    ...emptyDraft,
    label: " ci ",
    expiry: { choice: "720", date: "" },
    appIds: ["echo"],
    requestsPerMinute: " 10 ",
  };
  expect(draftProblems(full, nowMs, 60)).toEqual(noProblems);
  expect(draftFields(full, nowMs)).toEqual({
    label: "ci",
    expireTime: "2026-12-23T12:00:00.000Z",
    appIds: ["echo"],
    requestsPerMinute: 10,
  });
});

test("a replaced key ends after the overlap, or sooner by its own expiry", () => {
  expect(oldKeyEndMs(keyUntil("a", null), 3_600, nowMs)).toBe(nowMs + 3_600_000);
  expect(oldKeyEndMs(keyUntil("a", nowMs + 5), 3_600, nowMs)).toBe(nowMs + 5);
});
