import { expect, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";
import { docStories } from "../harness/doc-page.ts";
import { runStory } from "../harness/doc-story.ts";

const folders = tempFolders();

test("the commands of the README do what it says", { timeout: 600_000 }, async () => {
  const stories = docStories().filter(({ page }) => page === "README.md");
  expect(stories).toHaveLength(1);
  for (const { acts } of stories) await runStory(acts, { folder: folders.create() });
});
