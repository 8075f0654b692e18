import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { withTable } from "#tools/docs-tables.ts";
import { campaigns } from "./campaigns.ts";

/** What the last run of a campaign found. */
export interface CampaignRecord {
  readonly commit: string;
  /** The clone had changes beyond the commit. */
  readonly isDirty: boolean;
  readonly date: string;
  /** In words, with its unit. */
  readonly size: string;
  /** The load of the machine in the minute before. */
  readonly load: number;
  readonly cores: number;
  readonly passed: number;
  readonly failed: number;
  readonly seconds: number;
  readonly figures: Readonly<Record<string, string>>;
}

const recordsFile = pathOf("docs/campaigns.json");
const page = pathOf("docs/reliability.md");

export function readRecords(): Record<string, CampaignRecord> {
  return JSON.parse(readFileSync(recordsFile, "utf8"));
}

/** Keeps it as the campaign's last one, and writes the page's table. */
export function writeRecord(name: string, record: CampaignRecord): void {
  const records = { ...readRecords(), [name]: record };
  const inOrder = campaigns.flatMap((each) => {
    const found = records[each.name];
    return found ? [[each.name, found]] : [];
  });
  writeFileSync(recordsFile, `${JSON.stringify(Object.fromEntries(inOrder), null, 2)}\n`);
  writeCampaignTable();
}

export function writeCampaignTable(): void {
  writeFileSync(page, withCampaignTable(readFileSync(page, "utf8"), readRecords()));
}

/** The page with the table of these records. */
export function withCampaignTable(text: string, records: Readonly<Record<string, CampaignRecord>>): string {
  const rows = Object.entries(records).map(([name, record]) => {
    const { commit, isDirty, date, load, cores, size, passed, failed, seconds } = record;
    const found = Object.entries(record.figures).map(([what, value]) => `${what}: ${value}`);
    const at = `\`${commit}\`${isDirty ? " with changes" : ""}, ${date}, load ${load} on ${cores} cores`;
    return `| \`${name}\` | ${size} | ${at} | ${passed} passed, ${failed} failed, ${seconds} s | ${found.join("; ")} |\n`;
  });
  const head = "| campaign | size | when | tests | figures |\n| --- | --- | --- | --- | --- |\n";
  const filled = withTable(text, "campaigns", head + rows.join(""));
  if (filled === undefined) throw new Error("docs/reliability.md has no place for the table of campaigns.");
  return filled;
}

function pathOf(name: string): string {
  return fileURLToPath(new URL(`../../${name}`, import.meta.url));
}
