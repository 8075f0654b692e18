import { afterAll, expect, test } from "vitest";
import { docStories } from "../harness/doc-page.ts";
import { runStory } from "../harness/doc-story.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
afterAll(folders.remove);

test("the commands of the README do what it says", { timeout: 600_000 }, async () => {
  const stories = docStories().filter(({ page }) => page === "README.md");
  expect(stories).toHaveLength(1);
  for (const { acts } of stories) await runStory(acts, { folder: folders.create() });
});
