/**
 * A part of `npm run docs`: draws the third column of the pages' maps from the real imports, and
 * the table of campaigns from docs/campaigns.json.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { writeCampaignTable } from "./campaign-records.ts";
import { folderMaps, withImports } from "./folder-map.ts";
import { readSources } from "./source-facts.ts";

for (const { page, root } of folderMaps) {
  const path = fileURLToPath(new URL(`../../${page}`, import.meta.url));
  const text = readFileSync(path, "utf8");
  const drawn = withImports(text, root, readSources(root));
  if (drawn === text) continue;
  writeFileSync(path, drawn);
  process.stdout.write(`${page} is written.\n`);
}

writeCampaignTable();
