import { afterEach, expect, test, vi } from "vitest";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** The formats of a browser that asks for these languages. */
async function formatsFor(...languages: string[]) {
  vi.resetModules();
  vi.stubGlobal("navigator", { languages });
  return import("../../../web/time/local-format.ts");
}

const atMs = Date.UTC(2026, 10, 22, 14, 2, 31);

test("times and numbers are written as the browser's first language writes them", async () => {
  const german = await formatsFor("de-DE", "en");
  expect(german.exactTime(atMs)).toMatch(/^2[123]\.11\.2026, \d\d:\d\d:31 /);
  expect(german.exactTimeLanguage()).toBe("de-DE");
  expect(german.timeOfDay(atMs)).toMatch(/^\d\d:\d\d:31$/);
  expect(german.wholeNumber(1_200)).toBe("1.200");
  const american = await formatsFor("en-US");
  expect(american.exactTime(atMs)).toMatch(/^Nov 2[123], 2026, \d+:\d\d:31.[AP]M /);
  expect(american.timeOfDay(atMs)).toMatch(/^\d+:\d\d:31.[AP]M$/);
  expect(american.wholeNumber(1_200)).toBe("1,200");
});

test("a language that does not exist leaves the browser's own", async () => {
  const formats = await formatsFor("en-US@posix");
  expect(formats.timeOfDay(atMs)).toContain("31");
  expect(formats.wholeNumber(7)).toBe("7");
});
