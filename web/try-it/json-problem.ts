/**
 * Why a text can't be the JSON of a run, for people; null where it can, and where it is empty. The
 * browser says where the text stops to be JSON.
 */
export function jsonProblem(text: string): string | null {
  if (text.trim() === "") return null;
  try {
    const json: unknown = JSON.parse(text);
    const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
    return isObject ? null : 'Not an object. Write one, such as {"city":"Oslo"}.';
  } catch (thrown) {
    return `Not JSON yet: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  }
}
