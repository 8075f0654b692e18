import type { DatabaseSync } from "node:sqlite";
import type { WindowStore } from "../../limit/window-store.ts";
import { checkRecord, windowPageRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { write } from "./statement.ts";

/** The window that a clean stop keeps, in SQLite. */
export function createWindowStore(db: DatabaseSync): WindowStore {
  const remove = db.prepare("DELETE FROM window_pages");
  const insert = db.prepare(`INSERT INTO window_pages (${names}) VALUES (${values})`);
  const list = db.prepare(`SELECT ${select} FROM window_pages ORDER BY number`);

  return {
    keep: (pages) =>
      write(db, () => {
        remove.run();
        for (const [number, text] of pages.entries()) insert.run({ ...checkPage({ number, text }) });
      }),
    async take() {
      const rows = await write(db, () => {
        const found = list.all();
        if (found.length > 0) remove.run();
        return found;
      });
      return rows.map((row) => checkPage(row).text);
    },
  };
}

const { names, values, select } = columnsOf(windowPageRecord.shape);

function checkPage(page: unknown) {
  return checkRecord(windowPageRecord, page, "window_pages");
}
