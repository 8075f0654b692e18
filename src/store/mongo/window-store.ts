import { bounds } from "../../bounds.ts";
import type { WindowStore } from "../../limit/window-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, windowPageDocument } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** The window that a clean stop keeps, in MongoDB. */
export function createWindowStore({ windowPages }: Collections, call: StoreCall): WindowStore {
  const check = (page: unknown) => checkRecord(windowPageDocument, page, "windowPages");

  /** Whether the number was free. Instances that stop together take the same ones. */
  async function insert(number: number, text: string): Promise<boolean> {
    const page = check({ _id: number, text });
    try {
      await call(() => windowPages.insertOne(page));
      return true;
    } catch (thrown) {
      if (isDuplicate(thrown)) return false;
      throw thrown;
    }
  }

  return {
    async keep(pages) {
      const taken = await call(() => windowPages.find({}, { projection: { _id: 1 } }).toArray());
      const numbers = new Set(taken.map(({ _id }) => _id));
      let number = 0;
      for (const text of pages) {
        while (numbers.has(number) || !(await insert(number, text))) number++;
        number++;
      }
    },
    async read() {
      const find = () => windowPages.find().sort({ _id: 1 }).limit(bounds.keptPagesMax).toArray();
      return (await call(find)).map(check).map(({ _id, text }) => ({ number: _id, text }));
    },
    async remove(pages) {
      // With its text: another instance may have taken the number since.
      for (const { number, text } of pages) {
        const page = { _id: { $eq: number }, text: { $eq: text } };
        await call(() => windowPages.deleteOne(page));
      }
    },
  };
}
