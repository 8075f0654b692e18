/**
 * The characters that mislead the reader of a terminal, beside the control characters of ASCII, for
 * a class of a regular expression: DEL and the C1 controls, line separators, and the marks that
 * turn the direction of text around.
 */
export const misleadingCharacters =
  "\\u007f-\\u009f\\u2028\\u2029\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069";
