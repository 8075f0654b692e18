import { describe, expect, test } from "vitest";
import { createLog } from "#src/log/log.ts";
import { createTerminalLog } from "#src/log/terminal-log.ts";

function recorded({ colour = false } = {}) {
  const texts: string[] = [];
  const destination = createTerminalLog((text) => texts.push(text), { colour });
  return { log: createLog({ level: "info", destination }), text: () => texts.join("") };
}

test("a line has the time of day, the level, the message and the fields, and ends", () => {
  const { log, text } = recorded();
  log.warn({ teamId: "demo", waitMsMax: 5 }, "another Keyrun serves this database");
  expect(text()).toMatch(
    /^\[\d\d:\d\d:\d\d\] WARN: another Keyrun serves this database \{"teamId":"demo","waitMsMax":5\}\n$/,
  );
});

test("an event of the audit log is left out: its line is for programs", () => {
  const { log, text } = recorded();
  log.info({ audit: { id: "evt_1", action: "key.create" } }, "audit");
  expect(text()).toBe("");
  log.info({ audit: 1 }, "an audit");
  expect(text()).toContain("an audit");
});

test("an error is shown with its stack, and its causes", () => {
  const { log, text } = recorded();
  log.error({ err: new Error("outer", { cause: new TypeError("inner") }) }, "it failed");
  expect(text()).toMatch(
    /ERROR: it failed.*outer.*\n +at .*terminal-log\.test\.ts.*caused by: TypeError: inner/s,
  );
});

test("colour comes only where it is asked for", () => {
  for (const colour of [false, true]) {
    const { log, text } = recorded({ colour });
    log.warn("x");
    expect(text().includes("\u001b[")).toBe(colour);
  }
});

describe("no text of a record moves the cursor, colours the terminal or turns the text around", () => {
  const letters = [
    "\u0000",
    "\b",
    "\r",
    "\t",
    "\u001b",
    "\u007f",
    "\u009b",
    "\u200e",
    "\u202e",
    "\u2028",
    "\u2069",
  ];
  const dangerous = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u;

  test.each(letters.map((letter) => [JSON.stringify(letter), letter]))("%s", (_name, letter) => {
    for (const given of [letter, `a${letter}[31mb`, `\\${letter}`, `\\\\${letter}`, `"${letter}"`]) {
      const { log, text } = recorded();
      log.warn({ cause: given, [given]: 1, err: new Error(given) }, given);
      expect(text().replaceAll("\n", "")).not.toMatch(dangerous);
      expect(text()).toContain("WARN: ");
    }
  });

  test("a text that only looks like an escape stays as it is", () => {
    const { log, text } = recorded();
    log.warn("a\\u001b and C:\\new\\table");
    expect(text()).toContain("a\\u001b and C:\\new\\table");
  });
});

test("a line feed in a message begins no line that looks like another record", () => {
  const { log, text } = recorded();
  log.warn("m\n[12:00:00] FATAL: forged");
  expect(text().split("\n")).toHaveLength(2);
});
