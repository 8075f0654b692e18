/** The bounds of the limits that keys have of their own. */
export const limitBounds = {
  /** Keys with a limit of their own whose logs are kept, beside those of teams. */
  keyLogsMax: 100_000,
} as const;
