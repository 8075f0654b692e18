import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

export interface DocStory extends Story {
  readonly page: string;
}

/** The pages for people, by their paths in the repository. */
export function docPages(): string[] {
  return globSync(["*.md", "docs/**/*.md", "bench/*.md"], { cwd: root });
}

/** The README is one story. In the other pages, each part under a second-level heading is one. */
export function docStories(): DocStory[] {
  return docPages().flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8");
    const found = page === "README.md" ? [{ title: "all of it", acts: readActs(text) }] : readStories(text);
    return found.map(({ title, acts }) => ({ page, title: `${page}: ${title}`, acts }));
  });
}

/** What is typed, in order. */
export function commandsOf(acts: readonly Act[]): string[] {
  return acts.flatMap((act) => (act.kind === "type" ? act.commands : []));
}

/** What a reader does at one point of a page, in order. */
export type Act =
  | {
      readonly kind: "type";
      readonly terminal: Terminal;
      readonly commands: string;
      readonly prints?: string;
    }
  /** Presses Ctrl-C; without a terminal where the page does not say in which. */
  | { readonly kind: "end"; readonly terminal?: Terminal };

/** The terminals that a page may name: "in the second terminal". */
export type Terminal = (typeof ordinals)[number];

const ordinals = ["first", "second", "third", "fourth"] as const;

export interface Story {
  readonly title: string;
  readonly acts: readonly Act[];
}

/**
 * The stories of a page: one for each part under a second-level heading that has something to type.
 * A part that says "goes on from [another](#another)" begins with what that one does, in the same
 * terminals.
 */
export function readStories(markdown: string): Story[] {
  const parts = markdown.split(/^(?=## )/m);
  const titleOf = (part: string) => /^#+ (.*)/m.exec(part)?.[1] ?? "";
  const actsOf = (part: string): Act[] => {
    const own = readActs(part);
    const [, anchor] = /\bgoes on from\s+\[[^\]]*\]\(#([\w-]+)\)/.exec(part) ?? [];
    if (anchor === undefined) return own;
    const before = parts.find((other) => other !== part && anchorOf(titleOf(other)) === anchor);
    if (before === undefined)
      throw new Error(`"${titleOf(part)}" goes on from #${anchor}, which is not there`);
    return [...actsOf(before), ...own];
  };
  return parts
    .filter((part) => readActs(part).some(({ kind }) => kind === "type"))
    .map((part) => ({ title: titleOf(part), acts: actsOf(part) }));
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w -]/g, "")
    .replace(/ /g, "-");
}

/**
 * Reads a page as a person does. A fenced `sh` block is typed into the terminal that the prose
 * named last: "in a second terminal". A page begins in the first terminal. The `text` block right
 * after it is what the commands print. A sentence with "Ctrl-C" presses it, unless it begins with
 * the word: "Ctrl-C stops Keyrun" tells, and "Press Ctrl-C in the first terminal" asks.
 */
export function readActs(markdown: string): Act[] {
  const acts: Act[] = [];
  let terminal: Terminal = "first";
  const pieces = markdown.split(/^```(\w*)\n([\s\S]*?)^```$/m);
  // Prose, language, text, prose, language, text, …, prose.
  for (let at = 0; at < pieces.length; at += 3) {
    for (const sentence of sentencesOf(pieces[at] ?? "")) {
      const named = terminalIn(sentence);
      if (/\bCtrl-C\b/.test(sentence) && !sentence.startsWith("Ctrl-C")) {
        acts.push({ kind: "end", ...(named && { terminal: named }) });
      }
      if (named) terminal = named;
    }
    const [language, commands = "", , next, prints] = pieces.slice(at + 1);
    if (language !== "sh") continue;
    acts.push({ kind: "type", terminal, commands, ...(next === "text" && { prints }) });
  }
  return acts;
}

/** The sentences of the prose, without its headings, tables and comments. */
function sentencesOf(prose: string): string[] {
  return prose
    .replace(/^(#|\||<!--).*$/gm, "")
    .replace(/\s+/g, " ")
    .split(/(?<=[.:!?]) /)
    .map((sentence) => sentence.replace(/^[\s*-]+/, ""));
}

function terminalIn(sentence: string): Terminal | undefined {
  const named = [...sentence.matchAll(/\bin (?:a|the) (\w+) terminal\b/gi)].map(([, word]) => word);
  return ordinals.find((ordinal) => ordinal === named.at(-1));
}
