import { codeName } from "../http/refusal-response.ts";
import type { ReasonRow } from "../refusal/reason-row.ts";
import { reasons } from "../refusal/reasons.ts";

/** The table of docs/errors.md, in Markdown: every reason, by its status. */
export function renderRefusalsTable(): string {
  const rows = Object.entries<ReasonRow>(reasons)
    .toSorted(([, a], [, b]) => a.httpStatus - b.httpStatus)
    .map(([reason, row]) => {
      const { httpStatus, type, code, words } = row;
      return [httpStatus, `\`${reason.toLowerCase()}\``, words, repeat(row), `\`${type}\``, codeName(code)];
    });
  const head = ["status", "code", "message", "repeat", "type", "gRPC"];
  const all = [head, head.map(() => "---"), ...rows];
  return all.map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

/** Whether it makes sense to send the request again. */
function repeat({ httpStatus, retryAfterMs, unsafeToRepeat }: ReasonRow): string {
  if (httpStatus === 429) return "after `Retry-After`";
  if (retryAfterMs !== undefined) return `after ${retryAfterMs / 1_000} s`;
  return unsafeToRepeat ? "only where doing it twice is safe" : "";
}
