import { codeName } from "../edge/refusal-response.ts";
import { reasons } from "../reasons.ts";

/**
 * The text with the table of every refusal put between `<!-- refusals:start -->` and `<!-- refusals:end -->`;
 * undefined where it has no such place.
 */
export function withRefusalsTable(text: string): string | undefined {
  const place = /(<!-- refusals:start -->\n)[\s\S]*?(<!-- refusals:end -->)/;
  if (!place.test(text)) return undefined;
  return text.replace(place, (_, start: string, end: string) => `${start}${refusalsTable()}${end}`);
}

function refusalsTable(): string {
  const rows = Object.entries(reasons)
    .toSorted(([, a], [, b]) => a.httpStatus - b.httpStatus)
    .map(([reason, { httpStatus, type, code, words }]) =>
      [httpStatus, `\`${reason.toLowerCase()}\``, `\`${type}\``, codeName(code), words].join(" | "),
    );
  const head = ["status | code | type | gRPC | what the caller is told", "--- | --- | --- | --- | ---"];
  return [...head, ...rows].map((cells) => `| ${cells} |\n`).join("");
}
