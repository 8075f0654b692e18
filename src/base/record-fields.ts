/** The shapes of fields that stored records of several kinds have. */

import { z } from "zod";

/** An id, or another text that is never empty. */
export const filled = z.string().min(1);
export const timeMs = z.int().nonnegative();
/** The version that floors compare: 1 at first. */
export const version = z.int().positive();
