import type { Reason } from "#src/refusal/reasons.ts";

/** The reasons that a caller can't cause at will, and why. */
export const unreachable: Partial<Readonly<Record<Reason, string>>> = {
  STORE_FULL: "The disk under the store has to be full.",
  IDEMPOTENCY_ANSWER_GONE: "A team's kept answers have to pass 256 MiB, as in the tests of kept runs.",
  TEAM_ENDING: "A deletion of the team has to run at this moment, as in the tests of DeleteTeam.",
  RUN_INTERRUPTED: "Keyrun has to stop in the middle of a run, as in the tests of runs in the background.",
  BACKGROUND_RUNS_OFF: "Keyrun has to keep nothing of runs, as in the tests of runs in the background.",
  INTERNAL: "A fault of Keyrun itself. One that a caller could cause would be mended.",
};
