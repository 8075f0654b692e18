/** How the hints of commands call Keyrun, for the place in which this command was typed. */

import { callsIn, programIn } from "../base/program.ts";

// A process has one place: its folder, and the variables that it was started with.
const place = { cwd: process.cwd(), env: process.env };

/** The program in a command to type, for the Keyrun that this command speaks of. */
export const { program: programName, start: startCommand } = callsIn(place);

/** The program alone. */
export const programHere = programIn(place);
