// What `npm run docs` writes: it comes from the settings, the reasons and the policy, and is never
// edited.
import { methodsOf } from "#src/auth/policy.ts";
import type { ServiceRole } from "#src/auth/require-service.ts";
import { codeName } from "#src/http/refusal-response.ts";
import type { ReasonRow } from "#src/refusal/reason-row.ts";
import { reasons } from "#src/refusal/reasons.ts";
import { environment, settingFacts } from "#src/settings/known.ts";

/** `.env.example`: every setting, described and commented out, so that a copy changes nothing. */
export function renderEnvExample(): string {
  const head = [
    "# Every setting of Keyrun, with what counts where it is absent. Made by `npm run docs`.",
    "# Copy this file to .env, take the # off what you change, and start with",
    "#   set -a; . ./.env; set +a; npm start",
  ];
  const parts = entries().map(({ name, facts }) => {
    const orFile = facts.secret ? [`# Or ${name}_FILE, the path of a file that holds it.`] : [];
    const absence = facts.byDefault === undefined ? [`# Absent: ${facts.whenAbsent}.`] : [];
    return [`# ${facts.does}`, ...orFile, ...absence, `#${name}=${facts.byDefault ?? facts.example ?? ""}`];
  });
  return `${[head, ...parts].map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

/** The README's table of settings, in Markdown. */
export function renderSettingsTable(): string {
  const rows = entries().map(({ name, facts }) => {
    const names = facts.secret ? `\`${name}\`, \`${name}_FILE\`` : `\`${name}\``;
    const absence = facts.byDefault === undefined ? facts.whenAbsent : `\`${facts.byDefault}\``;
    return `| ${names} | ${absence} | ${facts.does} |`;
  });
  return ["| setting | default | what it does |", "| --- | --- | --- |", ...rows, ""].join("\n");
}

function entries() {
  return Object.entries(environment.shape).map(([name, schema]) => ({
    name,
    facts: settingFacts.get(schema) ?? { does: "" },
  }));
}

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
function repeat({ httpStatus, retryAfterMs, unsafeToRepeat, untilLater }: ReasonRow): string {
  if (untilLater) return "once the time that the message names has come";
  if (httpStatus === 429) return "after `Retry-After`";
  if (retryAfterMs !== undefined) return `after ${retryAfterMs / 1_000} s`;
  if (!unsafeToRepeat) return "";
  return httpStatus < 500 ? "no" : "only where doing it twice is safe";
}

/** The table of docs/service-tokens.md, in Markdown: what a service may call with each role. */
export function renderRolesTable(): string {
  const named = (role: ServiceRole) =>
    methodsOf(role)
      .map((name) => `\`${name}\``)
      .join(", ");
  const rows = [
    ["role", "may"],
    ["---", "---"],
    ["`verify`", `${named("verify")}: of every team`],
    ["`manage`", `${named("manage")}: of the teams that the token names, and of no other`],
    ["`metrics`", "`GET /metrics`"],
    ["`admin`", "everything that a service may do, tokens among it"],
  ];
  return rows.map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

/**
 * The text with the table between `<!-- NAME:start -->` and `<!-- NAME:end -->`. Undefined if the
 * text does not have these two marks.
 */
export function withTable(text: string, name: string, table: string): string | undefined {
  const place = new RegExp(`(<!-- ${name}:start -->\\n)[\\s\\S]*?(<!-- ${name}:end -->)`);
  if (!place.test(text)) return undefined;
  return text.replace(place, (_, start: string, end: string) => `${start}${table}${end}`);
}
