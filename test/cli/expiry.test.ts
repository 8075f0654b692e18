import { afterEach, expect, test, vi } from "vitest";
import { expiryWords, readExpiry, readNewExpiry } from "#src/cli/expiry.ts";
import { dayOf, expiryMs } from "../../web/keys/form/expiry.ts";

/** Node takes a zone that is set while it runs. */
const inZone = (zone: string) => vi.stubEnv("TZ", zone);
afterEach(() => vi.unstubAllEnvs());

const daysInZones: readonly (readonly [zone: string, day: string, end: string])[] = [
  ["UTC", "2026-12-01", "2026-12-01T23:59:59+00:00"],
  ["Europe/Berlin", "2026-12-01", "2026-12-01T23:59:59+01:00"],
  ["Asia/Tehran", "2026-12-01", "2026-12-01T23:59:59+03:30"],
  ["America/St_Johns", "2026-12-01", "2026-12-01T23:59:59-03:30"],
  ["Pacific/Kiritimati", "2026-12-01", "2026-12-01T23:59:59+14:00"],
  // Clocks are set forward and back on this day.
  ["Europe/Berlin", "2027-03-28", "2027-03-28T23:59:59+02:00"],
  ["Europe/Berlin", "2026-10-25", "2026-10-25T23:59:59+01:00"],
  // At its midnight they are set forward, so that the next day begins at one.
  ["Asia/Beirut", "2027-03-27", "2027-03-27T23:59:59+02:00"],
  // At its midnight they are set back, so that the day has 23:59:59 twice.
  ["Africa/Cairo", "2026-10-29", "2026-10-29T23:59:59+02:00"],
  ["Europe/Berlin", "2028-02-29", "2028-02-29T23:59:59+01:00"],
];

test.each(daysInZones)("in %s the day %s ends with its last second, on the screen too", (zone, day, end) => {
  inZone(zone);
  const ended = new Date(end).toISOString();
  expect([readNewExpiry(day), readExpiry(day)]).toEqual([ended, ended]);
  expect(expiryWords(ended, day)).toBe(`It expires at ${end} (${zone}).`);
  expect(expiryMs({ choice: "date", date: day }, 0)).toBe(Date.parse(end));
  expect([Date.parse(end), Date.parse(end) + 1_000].map(dayOf)).toEqual([
    day,
    expect.not.stringMatching(day),
  ]);
});

test("a moment without a zone is refused with this machine's zone in the same words", () => {
  inZone("Europe/Berlin");
  for (const [given, here] of [
    ["2026-12-01T18:00", "2026-12-01T18:00+01:00"],
    ["2027-07-01T18:00:30", "2027-07-01T18:00:30+02:00"],
  ] as const) {
    expect(() => readNewExpiry(given)).toThrow(
      `--expires ${given} has no zone: write ${here} for this machine's, or ${given}Z for UTC.`,
    );
    for (const said of [here, `${given}Z`]) expect(readNewExpiry(said)).toBe(new Date(said).toISOString());
  }
});

test("an end that is no day is said in UTC", () => {
  inZone("Europe/Berlin");
  const words = "It expires at 2026-12-01T17:00:00Z.";
  expect(expiryWords("2026-12-01T17:00:00Z", "2026-12-01T18:00+01:00")).toBe(words);
  expect(expiryWords("2026-12-01T17:00:00Z", "90d")).toBe(words);
  expect(expiryWords("2026-12-01T17:00:00Z")).toBe(words);
});
