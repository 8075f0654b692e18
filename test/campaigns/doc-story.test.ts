import { describe, expect, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";
import { readActs, readStories } from "../harness/doc-page.ts";
import { runStory } from "../harness/doc-story.ts";
import { isSaid } from "../harness/page-text.ts";

const folders = tempFolders();

const sh = (...lines: string[]) => `\n\`\`\`sh\n${lines.join("\n")}\n\`\`\`\n`;
const text = (...lines: string[]) => `\n\`\`\`text\n${lines.join("\n")}\n\`\`\`\n`;
/** A server that is ready at once. */
const app = "npm run example";
const ask = `curl -sS http://127.0.0.1:9000/run -d '{"text":"hello"}'`;

// Where the machine allows no network of its own, both are the same.
describe.each([
  { title: "on the ports of the page", otherPorts: false },
  { title: "on other ports", otherPorts: true },
])("a page is run as a person would, $title:", ({ otherPorts }) => {
  const run = (...page: string[]) =>
    runStory(readActs(page.join("\n")), { folder: folders.create(), otherPorts });

  test("a page that says something else than what happens fails", async () => {
    await expect(run(sh("echo one"), text("two"))).rejects.toThrow("This page says\ntwo");
    await expect(run(sh("true", "ls nowhere", "true"))).rejects.toThrow("This failed:\ntrue\nls nowhere");
  });

  test("a server runs until the page says Ctrl-C, and then not any more", async () => {
    await run(sh(app), "In a second terminal:", sh(ask), text('{"text":"HELLO"}'));
    const stopped = run(sh(app), "Stop it with Ctrl-C. In a second terminal:", sh(ask));
    await expect(stopped).rejects.toThrow("curl: (7)");
  });

  test("a page that types where a server runs fails", async () => {
    await expect(run(sh(app), "Then:", sh(ask))).rejects.toThrow(
      "This page types in the first terminal, where this still runs",
    );
  });

  test("a server that is started a second time fails, unless Ctrl-C came before", async () => {
    await expect(run(sh(app), "Again, in a second terminal:", sh(app))).rejects.toThrow("EADDRINUSE");
    await run(sh(app), "Press Ctrl-C in the first terminal. Start it again:", sh(app));
  });

  test("a page that says Ctrl-C where nothing runs, or not where, fails", async () => {
    await expect(run("Press Ctrl-C in the second terminal.")).rejects.toThrow("where nothing runs");
    await expect(run("Press Ctrl-C.")).rejects.toThrow("servers run in 0 terminals");
  });

  test("a variable of one terminal is not seen in another", async () => {
    const set = sh("export COLOUR=blue");
    const show = sh(`echo "colour: $COLOUR"`);
    await run(set, show, text("colour: blue"));
    await run(
      set,
      "In a second terminal:",
      show,
      text("colour:"),
      "In the first terminal:",
      show,
      text("colour: blue"),
    );
  });

  test("a page that leaves files for others, or for git, fails", async () => {
    await expect(run(sh("umask 077", "echo secret > password"))).rejects.toThrow("add 'password'");
    await expect(run(sh("umask 022", "mkdir tls", "echo secret > tls/key.pem"))).rejects.toThrow(
      "Others can read what this page makes: tls, tls/key.pem",
    );
    await run(sh("umask 077", "mkdir tls", "echo secret > tls/key.pem"));
  });
});

test("a page asks for Ctrl-C in a sentence that has the word, but for one that begins with it", () => {
  const ends = (prose: string) => readActs(prose).filter(({ kind }) => kind === "end");
  expect(ends("Press Ctrl-C in the first\nterminal. It ends.")).toEqual([{ kind: "end", terminal: "first" }]);
  expect(ends("In the second terminal, press Ctrl-C.")).toEqual([{ kind: "end", terminal: "second" }]);
  expect(ends("Stop Keyrun with Ctrl-C.")).toEqual([{ kind: "end" }]);
  expect(ends("Ctrl-C stops Keyrun.\n\n| Ctrl-C | a row of a table |")).toEqual([]);
});

test("a section that goes on from another one begins with what that one does", () => {
  const page = (anchor: string) => [
    "# Page",
    "## One: it",
    sh("one"),
    "## Two",
    `This goes on from [one](#${anchor}).`,
    sh("two"),
    "## No",
  ];
  const stories = readStories(page("one-it").join("\n"));
  expect(stories.map(({ title }) => title)).toEqual(["One: it", "Two"]);
  expect(stories[1]?.acts).toMatchObject([{ commands: "one\n" }, { commands: "two\n" }]);
  expect(() => readStories(page("three").join("\n"))).toThrow("#three, which is not there");
});

test("a block is typed into the terminal that was named last", () => {
  const page = [
    sh("one"),
    "In a second terminal:",
    sh("two"),
    sh("three"),
    "In the first terminal:",
    sh("four"),
  ];
  expect(readActs(page.join("\n"))).toMatchObject([
    { terminal: "first", commands: "one\n" },
    { terminal: "second", commands: "two\n" },
    { terminal: "second", commands: "three\n" },
    { terminal: "first", commands: "four\n" },
  ]);
});

test("printed text may differ only in ids, keys and times, and where the page has …", () => {
  const places = new Map([["127.0.0.1:8080", "127.0.0.1:4711"]]);
  expect(isSaid("a\nb\nc\n", "a\n…\nc\n", places)).toBe(true);
  expect(isSaid("a\nb\nc\n", "a\nc\n", places)).toBe(false);
  expect(isSaid("at http://127.0.0.1:4711/x", "at http://127.0.0.1:8080/x", places)).toBe(true);
  expect(isSaid("run_1fv0j56qgf3zjgkfrwasendm ok", "run_2fv0j56qgf3zjgkfrwasendm ok", places)).toBe(true);
  expect(isSaid("run_1fv0j56qgf3zjgkfrwasendm ok", "run_2fv0j56qgf3zjgkfrwasendm no", places)).toBe(false);
});
