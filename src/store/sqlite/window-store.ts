import type { DatabaseSync } from "node:sqlite";
import type { WindowStore } from "../../limit/window-store.ts";
import { checkRecord, windowPageRecord } from "../records.ts";
import { answer, columnsOf, write } from "./statement.ts";

/** The window that a clean stop keeps, in SQLite. */
export function createWindowStore(db: DatabaseSync): WindowStore {
  const remove = db.prepare("DELETE FROM window_pages WHERE number = :number AND text = :text");
  const insert = db.prepare(`INSERT INTO window_pages (${names}) VALUES (${values})`);
  const list = db.prepare(`SELECT ${select} FROM window_pages ORDER BY number`);
  const read = () => list.all().map(checkPage);

  return {
    keep: (pages) =>
      write(db, () => {
        const numbers = new Set(read().map(({ number }) => number));
        let number = 0;
        for (const text of pages) {
          while (numbers.has(number)) number++;
          insert.run({ ...checkPage({ number, text }) });
          number++;
        }
      }),
    read: () => answer(read),
    remove: (pages) =>
      write(db, () => {
        for (const { number, text } of pages) remove.run({ number, text });
      }),
  };
}

const { names, values, select } = columnsOf(windowPageRecord.shape);

function checkPage(page: unknown) {
  return checkRecord(windowPageRecord, page, "window_pages");
}
