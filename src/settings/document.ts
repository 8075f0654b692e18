import { environment } from "./known.ts";
import { settingFacts } from "./setting-facts.ts";

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

/** The table of docs/settings.md, in Markdown. */
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
