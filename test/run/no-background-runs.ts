import { expect } from "vitest";

/** For keys of which none stands for a run in the background. */
export const noBackgroundRuns = {
  isKept: async () => false,
  answerOf: async () => expect.unreachable("no key stands for a run in the background"),
};
