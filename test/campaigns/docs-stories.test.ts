import { afterAll, describe, onTestFinished, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";
import { commandsOf, type DocStory, docStories } from "../harness/doc-page.ts";
import { runStory } from "../harness/doc-story.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { redisMissing, startRedis } from "../harness/redis-server.ts";
import { mongoTools } from "./mongo-tools.ts";

const folders = tempFolders();

// `npm run test:all` does what the README says.
const stories = docStories().filter(({ page }) => page !== "README.md");
const needsRedis = ({ acts }: DocStory) => commandsOf(acts).join("").includes("redis://");
const needsMongo = ({ acts }: DocStory) => commandsOf(acts).join("").includes("mongodb://");
const needsTools = ({ acts }: DocStory) => /^mongo(dump|restore) /m.test(commandsOf(acts).join(""));
const tools = stories.some(needsTools) ? mongoTools() : { folder: "" };

describe("the commands of the docs do what the docs say", () => {
  test.each(stories.filter((story) => !needsMongo(story)))("$title", { timeout: 600_000 }, ({ acts }) =>
    runStory(acts, { folder: folders.create() }),
  );

  describeWith(mongodbMissing)("with a MongoDB server", () => {
    const databases = createMongoDatabases();
    afterAll(() => databases.drop());

    const withMongo = stories.filter(needsMongo);
    test.each(withMongo.filter((story) => !needsRedis(story)))("$title", { timeout: 600_000 }, ({ acts }) =>
      runStory(acts, { folder: folders.create(), mongodbUri: databases.createUri() }),
    );

    describe.skipIf(redisMissing() !== undefined)("with a Redis", () => {
      const run = async ({ acts }: DocStory) => {
        const redis = await startRedis();
        onTestFinished(redis.kill);
        const places = { mongodbUri: databases.createUri(), redisUrl: redis.url };
        const programs = "folder" in tools ? tools.folder : "";
        await runStory(acts, { folder: folders.create(), ...places, programs });
      };
      const withRedis = withMongo.filter(needsRedis);
      test.each(withRedis.filter((story) => !needsTools(story)))("$title", { timeout: 600_000 }, run);

      describe.skipIf("missing" in tools)("with MongoDB's own tools", () => {
        test.each(withRedis.filter(needsTools))("$title", { timeout: 600_000 }, run);
      });
    });
  });
});
