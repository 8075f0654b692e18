/** `keys scan`: finds whole keys in files, standard input and git's histories, and prints none. */

import { createKeyText, type KeyText, redactKeyValue } from "../../keys/key-value.ts";
import { createRedaction, type Redact } from "../../log/redaction.ts";
import { CommandFailure, wrongUse } from "../failures.ts";
import { answer, type CliWorld, counted, type JsonOption, printable, type Terminal } from "../terminal.ts";
import { gitObjects, placeOfObject, repositoryOf } from "./git-history.ts";
import { scannedFiles } from "./scanned-files.ts";

/**
 * Finds whole keys, whose checksum is right, in files, folders, standard input and, with `history`,
 * in all objects of git repositories. Prints where each is and no key in full. Ends with 1 where it
 * has found one, and with 2 where it has found none but could not read everything.
 */
export async function scanKeys(
  world: ScanWorld,
  terminal: Terminal,
  { paths, ...options }: ScanOptions & { paths: readonly string[] },
): Promise<void> {
  const prefix = options.prefix ?? world.env.KEYRUN_KEY_PREFIX ?? "svc";
  if (!/^[a-z][a-z0-9]{0,11}$/.test(prefix)) {
    throw wrongUse("The prefix must have 1 to 12 lower-case letters and digits, and begin with a letter.");
  }
  const scan = new Scan(createKeyText(prefix), createRedaction(prefix, []), (finding) => {
    if (!options.json) terminal.print(lineOf(finding));
  });
  const unreadable = (path: string, error: unknown) => {
    scan.unreadable += 1;
    terminal.note(`Not read: ${printable(path)}: ${codeOf(error)}`);
  };
  for (const path of paths) {
    if (path === "-") await scan.read("-", asBytes(world.stdin));
    else {
      for await (const file of scannedFiles(path, unreadable)) {
        await scan
          .read(file.path, file.bytes())
          .catch((error) => throwUnlessRead(error, file.path, unreadable));
      }
      if (options.history) {
        const history = `the history of ${path}`;
        await scan.readHistory(path).catch((error) => throwUnlessRead(error, history, unreadable));
      }
    }
  }
  const { findings, files, objects, bytes } = scan;
  await answer(terminal, options, { findings, files, objects, bytes, unreadable: scan.unreadable }, () => {
    const inGit = options.history ? ` and ${counted(objects, "object")} of git` : "";
    const found = findings.length === 0 ? "No key" : `Found ${counted(findings.length, "key")}`;
    terminal.note(`${found} in ${counted(files, "file")}${inGit}, ${counted(bytes, "byte")}.`);
  });
  terminal.endWith(findings.length > 0 ? 1 : scan.unreadable > 0 ? 2 : 0);
}

export interface ScanOptions extends JsonOption {
  prefix?: string;
  history?: boolean;
}

export type ScanWorld = Pick<CliWorld, "env" | "stdin">;

/** Keys after which a scan ends: it has found enough to act on. */
const findingsMax = 10_000;
/** Objects of a history whose commit is searched: each search reads all commits. */
const objectsLocatedMax = 200;

interface Finding {
  readonly path: string;
  readonly line: number;
  readonly redactedValue: string;
  /** In a history: the commit in which it appeared first. */
  readonly commit?: string;
}

function lineOf({ path, line, commit, redactedValue }: Finding): string {
  const at = commit === undefined ? "" : ` in commit ${commit.slice(0, 12)}`;
  return `${path}:${line}${at}  ${redactedValue}`;
}

class Scan {
  readonly findings: Finding[] = [];
  files = 0;
  objects = 0;
  bytes = 0;
  unreadable = 0;
  readonly #keys: KeyText;
  readonly #redact: Redact;
  readonly #found: (finding: Finding) => void;
  readonly #repositories = new Set<string>();

  constructor(keys: KeyText, redact: Redact, found: (finding: Finding) => void) {
    this.#keys = keys;
    this.#redact = redact;
    this.#found = found;
  }

  async read(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const finder = new KeyFinder(this.#keys);
    this.files += 1;
    for await (const bytes of pieces) {
      this.bytes += bytes.length;
      for (const { line, value } of finder.find(bytes)) this.#note({ path, line }, value);
    }
  }

  /**
   * Reads the repository that holds the path, once for all paths that it holds. Throws a sentence
   * if it can't be read to its end; what was found until then is told.
   */
  async readHistory(path: string): Promise<void> {
    const repository = await repositoryOf(path);
    if (repository === undefined || this.#repositories.has(repository.id)) return;
    this.#repositories.add(repository.id);
    const { folder } = repository;
    const hits: Hit[] = [];
    try {
      await this.#readObjects(folder, hits);
    } finally {
      await this.#noteHits(folder, hits);
    }
  }

  async #readObjects(folder: string, hits: Hit[]): Promise<void> {
    let finder = new KeyFinder(this.#keys);
    for await (const { id, kind, isFirst, bytes } of gitObjects(folder)) {
      if (isFirst) {
        finder = new KeyFinder(this.#keys);
        this.objects += 1;
      }
      this.bytes += bytes.length;
      for (const { line, value } of finder.find(bytes)) {
        if (hits.length === findingsMax) throw tooMany();
        hits.push({ id, kind, line, value });
      }
    }
  }

  /** A key that is in several versions of a file is told once for each path. */
  async #noteHits(folder: string, hits: readonly Hit[]): Promise<void> {
    const told = new Set<string>();
    const places = new Map<string, Awaited<ReturnType<typeof placeOfObject>>>();
    for (const { id, kind, line, value } of hits) {
      if (kind === "blob" && !places.has(id) && places.size < objectsLocatedMax) {
        // Git may be unable to read the commits. The object itself is a place, too.
        places.set(id, await placeOfObject(folder, id).catch(() => undefined));
      }
      const { path = `${kind} ${id}`, commit } = places.get(id) ?? {};
      if (told.has(`${path} ${value}`)) continue;
      told.add(`${path} ${value}`);
      this.#note({ path, line, ...(commit !== undefined && { commit }) }, value);
    }
  }

  #note(place: Omit<Finding, "redactedValue">, value: string): void {
    if (this.findings.length === findingsMax) throw tooMany();
    const path = printable(this.#redact(place.path));
    const finding = { ...place, path, redactedValue: redactKeyValue(value) };
    this.findings.push(finding);
    this.#found(finding);
  }
}

/** A key in an object of a history. */
interface Hit {
  readonly id: string;
  readonly kind: string;
  readonly line: number;
  readonly value: string;
}

function tooMany(): CommandFailure {
  return new CommandFailure(`The scan has ended at ${findingsMax} keys: scan the folders one by one.`);
}

/** An error of a file is told, and the scan goes on. An end of the scan is none. */
function throwUnlessRead(
  error: unknown,
  path: string,
  unreadable: (path: string, error: unknown) => void,
): void {
  if (error instanceof CommandFailure) throw error;
  unreadable(path, error);
}

/** The error's code, such as EACCES: its message repeats the path. */
function codeOf(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return error instanceof Error ? error.message : String(error);
}

async function* asBytes(input: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}

/**
 * Finds whole keys in the bytes of one file, which come in pieces. Holds one piece and the end of
 * the one before. Any bytes will do: in a binary file lines end where such a byte is, and a text of
 * two bytes a character, as Windows writes it, is read without the zero bytes.
 */
export class KeyFinder {
  readonly #keys: KeyText;
  readonly #form: RegExp;
  #rest = "";
  #line = 1;

  constructor(keys: KeyText) {
    this.#keys = keys;
    this.#form = new RegExp(keys.pattern, "g");
  }

  /** The keys that end in this piece. */
  find(bytes: Uint8Array): FoundKey[] {
    const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
    const text = this.#rest + piece.replaceAll("\0", "");
    const found: FoundKey[] = [];
    this.#form.lastIndex = 0;
    for (let match = this.#form.exec(text); match; match = this.#form.exec(text)) {
      const [value] = match;
      // A cut key may have taken the beginning of the next for its own end.
      this.#form.lastIndex = match.index + 1;
      if (this.#keys.isWhole(value)) found.push({ line: this.#line + linesIn(text, match.index), value });
    }
    // No whole key fits into the rest, so none is found twice.
    const restAt = Math.max(0, text.length - (this.#keys.characters - 1));
    this.#line += linesIn(text, restAt);
    this.#rest = text.slice(restAt);
    return found;
  }
}

interface FoundKey {
  /** From 1. */
  readonly line: number;
  /** The full value. Print it only in its redacted form. */
  readonly value: string;
}

function linesIn(text: string, end: number): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0 && at < end; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}
