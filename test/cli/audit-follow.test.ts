import { expect, test } from "vitest";
import { listEvents } from "#src/cli/audit-list.ts";
import type { Terminal } from "#src/cli/terminal.ts";

test("--follow shows an event once, and again when it is known what became of it", async () => {
  const begun = { id: "a", action: "key.revoke", outcome: "AUDIT_OUTCOME_UNKNOWN" };
  const ended = { ...begun, outcome: "AUDIT_OUTCOME_DONE" };
  const answers = [[begun], [begun], [ended], [ended]];
  const lines: string[] = [];
  const audit = {
    listEvents: async () => {
      const events = answers.shift();
      if (!events) throw new Error("the test is over");
      return { events };
    },
  };
  const server = async () => ({ audit }) as unknown as Awaited<ReturnType<Terminal["server"]>>;
  const terminal = { server, print: (line: string) => void lines.push(line) } as unknown as Terminal;
  await expect(listEvents(terminal, { follow: true })).rejects.toThrow("over");
  expect(lines).toHaveLength(2);
  expect(lines[0]).toContain("unknown");
  expect(lines[1]).toContain("done");
});
