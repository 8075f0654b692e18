/** The lowest Node version that Keyrun runs on, such as `24.15`. It comes from package.json. */
export const leastNode: string;

/** Whether a version such as `24.21.0` is new enough. */
export function isNewEnough(version: string): boolean;
